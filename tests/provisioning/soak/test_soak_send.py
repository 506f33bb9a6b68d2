"""The program of step soak on this machine: which boot it is in, and that another boot's restart is refused;
and hostile answers are refused."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Node
from inventory.transport.base import Limits, Program, Reply
from inventory.transport.local import LocalTransport
from provisioning.soak import send
from provisioning.soak.record import SoakRecord, read, write

NODE = Node("n1")


def test_this_machine_says_its_boot_and_what_its_kernel_enumerated() -> None:
    found = send.look(NODE, LocalTransport())
    assert found.message == "" and found.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.uptime > 0 and found.memory and found.cpus
    there = {path.name for path in Path("/sys/bus/pci/devices").glob("*") if not (path / "physfn").exists()}
    assert set(found.pci) == there and all(len(values) == 5 for values in found.pci.values())


def test_a_machine_that_is_in_another_boot_by_now_is_not_restarted() -> None:
    assert send.restart(NODE, LocalTransport(), "another boot") == (False, "it is another boot by now")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=30),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["ok", "message", "boot", "uptime", "memory", "cpus", "pci"]), inner,
                        max_size=7), max_leaves=20))
def test_whatever_a_node_answers_is_a_look_with_a_boot_or_a_reason(answer: object) -> None:
    found = send._read(Reply("n1", zlib.compress(json.dumps(answer).encode()), None, 0.0, 0.0))
    assert bool(found.boot) != bool(found.message)


@given(st.binary(max_size=200))
def test_a_record_that_cannot_be_read_is_none(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), SoakRecord("n1", "gx8", "1.0", ("cold",)))
        assert read(Path(folder), "n1") == SoakRecord("n1", "gx8", "1.0", ("cold",))
        (Path(folder) / "soak/n1.json").write_bytes(data)
        assert read(Path(folder), "n1") is None


class Answers:
    """A transport to a node that answers this."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def run(self, nodes: Sequence[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        yield from (Reply(node.name, self.body, None, 0.0, 0.0) for node in nodes)


@pytest.mark.parametrize("body", [b"", b"torn", zlib.compress(b"{}"), zlib.compress(b'{"ok": true}')])
def test_after_an_answer_that_cannot_be_read_it_is_not_known_whether_it_restarts(body: bytes) -> None:
    assert send.restart(NODE, Answers(body), "a boot") == (None, "its answer cannot be read")
