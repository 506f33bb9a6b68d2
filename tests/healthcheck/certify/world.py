"""A head with keys and certificates, a node's folders,
and what kills a writer between any two of its steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from healthcheck.certify.certificate import Passed
from healthcheck.certify.keys import NAMESPACES, load_keys, new_key
from healthcheck.certify.manifest import issue
from healthcheck.config.rulesfolder import packaged
from healthcheck.gate.policyload import load_gate_policy
from healthcheck.gate.publish import SignedSnapshot, publish
from healthcheck.model.hardware import Hardware

NOW = 1_790_000_000
HARDWARE: Hardware = {
    "gpu 0000:18:00.0": {"serial": "1652", "uuid": "GPU-1", "firmware": "96.00.74.00.01"},
    "nic 0000:1a:00.0": {"uuid": "a088:c203:00ab:cdef", "firmware": "28.39.1002"},
    "board": {"serial": "C12", "firmware": "1.4"},
}
POLICY = load_gate_policy([packaged()]).document()


def entry(**changed: Any) -> dict[str, Any]:
    return {"lifecycle": "service", "state": "healthy", "isolation": "none", "looked": NOW,
            "certificate": None, "versions": {}, **changed}


def passed(node: str = "n1", stage: str = "standard", at: int = NOW, **changed: Any) -> Passed:
    return Passed(node, stage, at, **{"boot": "b1", **changed})


@dataclass
class Head:
    """A state folder; its clock goes on with each thing done."""

    state: Path
    now: float = NOW

    def publish(self, *names: str, now: float | None = None, shared: tuple[Path, ...] = ()) -> SignedSnapshot:
        self.now = self.now + 1 if now is None else now
        return publish(self.state, {name: entry() for name in names or ("n1", "n2")}, POLICY, self.now,
                       shared)

    def certify(
        self, *nodes: str, stage: str = "standard", hardware: Hardware = HARDWARE, **changed: Any,
    ) -> None:
        self.now += 1
        issue(self.state, [passed(node, stage, int(self.now), **changed) for node in nodes],
              dict.fromkeys(nodes, hardware), self.now)

    def key(self) -> str:
        return new_key(self.state, None, "test", self.now).id

    def trusted(self) -> bytes:
        return "".join(key.public.line(NAMESPACES) for key in load_keys(self.state).trusted).encode()


@dataclass
class Place:
    """Where a node keeps its snapshot and its trusted keys."""

    folder: str
    trusted: str


def head(path: Path, cluster: str = "alpha") -> Head:
    made = Head(path)
    new_key(path, cluster, "test", NOW)
    return made


def place(path: Path, *heads: Head) -> Place:
    path.mkdir(parents=True)
    (path / "gate.pub").write_bytes(b"".join(one.trusted() for one in heads))
    return Place(str(path / "gate"), str(path / "gate.pub"))


class Killed(BaseException):
    """What a process would not have lived to see."""


_STEPS = ("rename", "replace", "symlink", "mkdir", "fsync", "unlink", "open", "rmdir", "write")


@contextmanager
def dying(after: int) -> Iterator[Callable[[], bool]]:
    """Whatever changes a file or a folder ends the process instead, once so many such steps were done;
    tells whether it came to that."""
    left, dead = after, False

    def step(real: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any, **more: Any) -> Any:
            nonlocal left, dead
            left -= 1
            if dead or left < 0:
                dead = True
                raise Killed
            return real(*args, **more)

        return done

    with pytest.MonkeyPatch.context() as patch:
        for name in _STEPS:
            patch.setattr(os, name, step(getattr(os, name)))
        with suppress(Killed):
            yield lambda: dead
