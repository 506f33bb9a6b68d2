"""A store for each test, whose marks name none, as those of older versions; and the sites of back ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from healthcheck.store.file import Store, opened
from tests.testbed.backends import (
    CommandSite,
    GoldenSite,
    HostFileSite,
    KubernetesSite,
    Memory,
    Site,
    SlurmSite,
)
from tests.testbed.kubernetes import serving
from tests.testbed.marks import nameless


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "state", make=True) as made:
        yield nameless(made)


@pytest.fixture
def site_of(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str, Collection[str]], Site]]:
    """The site of a back end by its name, with these nodes; that of slurm is the module's `bed`."""
    with ExitStack() as stack:
        def made(name: str, nodes: Collection[str]) -> Site:
            if name == "kubernetes":
                return KubernetesSite(stack.enter_context(serving(tmp_path)), nodes)
            if name == "slurm":
                bed = request.getfixturevalue("bed")
                for key, value in bed.environment.items():
                    monkeypatch.setenv(key, value)
                real = SlurmSite(bed)
                real.restore()
                stack.callback(real.restore)
                return real
            makers: dict[str, Callable[[], Site]] = {
                "memory": lambda: Memory(nodes), "hostfile": lambda: HostFileSite(tmp_path),
                "golden": lambda: GoldenSite(tmp_path, nodes),
                "command": lambda: CommandSite(tmp_path, nodes)}
            return makers[name]()

        yield made
