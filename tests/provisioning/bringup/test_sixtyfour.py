"""Machines, most of them with planted troubles, through `muster bringup run --apply`; in the slow tier
sixty-four of them. Runs are killed in engine/test_run_kill.py and test_planted_slow.py.

Controllers are sushy-tools' emulator, machines real sshd processes that live while their power is on. Steps
after SSH are left out here but for the last; the slow tier has them.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from tests.provisioning.bringup.plantedends import ENDS, End, Touched, touched
from tests.provisioning.bringup.plantedrack import (
    FEW,
    PASSWORD,
    PLANTED,
    POLICY,
    SKU,
    Site,
    machines,
    processes,
    site,
)
from tests.testbed.bmcs import Machine, Wrong, require_rack
from tests.testbed.boxes import require_boxes
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
# How many machines, with which troubles.
RACKS = [pytest.param((17, FEW), id="17"), pytest.param((64, PLANTED), id="64", marks=pytest.mark.slow)]


@dataclass
class Ended:
    """A bring-up that is over."""

    site: Site
    machines: list[Machine]
    codes: list[int | None]
    document: dict[str, Any]
    seen: set[int]          # processes that had the password where others see it

    def elsewhere(self) -> list[str]:
        """Machines that do not stand as they should by what muster says, with that."""
        of = {one["node"]: one for one in self.document["machines"]}
        return [f"{one.name} ({one.wrong.value if one.wrong else 'sound'}): {got}: {of[one.name]['said']}; "
                f"{self._actions(one.name)}" for one in self.machines
                if (got := _end(of[one.name])) != ENDS[one.wrong]]

    def _actions(self, name: str) -> list[str]:
        with opened(self.site.home / "state") as store:
            return [f"{one.key} {one.done} {one.message}" for one in bringups.actions(store, [name])]

    def touches(self) -> dict[str, Touched]:
        """How often each controller took a change."""
        return {
            name: Touched(one["bios"], one["off"], one["on"])
                for name, one in self.site.bed.all_counts().items()}


@pytest.fixture(scope="module", params=RACKS)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """A run that no one disturbs."""
    number, troubles = request.param
    rack = machines(number, troubles, gpus=2)
    with _site(tmp_path_factory.mktemp("alone") / "home", rack) as made, _watched() as seen:
        code = made.muster("bringup", "run", f"gx[01-{number}]", "--apply", "--rules", "rules")
        yield Ended(made, rack, [code], _document(made), seen)


def test_each_machine_ends_in_the_right_step_with_the_right_owner(alone: Ended) -> None:
    assert not alone.elsewhere()
    assert alone.codes == [1]


def test_no_machine_is_touched_more_than_it_needs(alone: Ended) -> None:
    assert alone.touches() == {one.name: touched(one.wrong, one.on) for one in alone.machines}
    assert not [
        name for name, one in alone.site.bed.all_counts().items() if one["restart"] or one["shutdown"]]


def test_a_password_that_is_refused_is_tried_once(alone: Ended) -> None:
    refused = [one.name for one in alone.machines if one.wrong is Wrong.PASSWORD]
    assert {name: alone.site.bed.counts(name)["401"] for name in refused} == dict.fromkeys(refused, 1)


def test_the_punch_list_names_every_machine_in_trouble_under_its_owner(alone: Ended) -> None:
    assert alone.site.muster("bringup", "report", "--format", "csv") in (0, 1)
    for one in alone.machines:
        assert (one.name in alone.site.output[-1]) == (ENDS[one.wrong].owner is not None), one


def test_who_is_through_is_in_service_and_no_one_else(alone: Ended) -> None:
    lines = (alone.site.home / "muster.yaml").read_text().splitlines()
    for one in alone.machines:
        line = next(line for line in lines if line.startswith(f"  {one.name}:"))
        assert ("lifecycle: bringup" in line) == (ENDS[one.wrong].owner is not None)


def test_no_password_is_in_any_output_store_file_process_or_log(alone: Ended) -> None:
    assert not alone.seen, "a process had it in its command line or environment"
    home = alone.site.home
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "bmc-password"]
    assert any(path.suffix in (".db", ".sqlite") or path.read_bytes()[:6] == b"SQLite"
               for path in files), "the store was not searched"
    found = [
        str(path) for path in files for form in _forms(alone.site.bed.user) if form in path.read_bytes()]
    assert found == []
    assert PASSWORD.encode() in (home / "bmc-password").read_bytes(), "nothing was searched for"
    assert not [text for text in alone.site.output for form in _forms(alone.site.bed.user)
                if form.decode() in text]


def test_the_search_for_the_password_finds_a_process_that_shows_it() -> None:
    with subprocess.Popen(["sleep", "60"], env={"SOME": PASSWORD}) as process, _watched() as seen:
        try:
            wait_until(lambda: process.pid in seen, what="the search")
        finally:
            process.kill()


def _site(home: Path, rack: list[Machine]) -> Any:
    require_rack()
    require_boxes()
    return site(home, rack, POLICY, sku=SKU.replace("{port_count", "{gpu_count: 2, port_count"))


def _document(made: Site) -> dict[str, Any]:
    made.muster("bringup", "status", "--json")
    found: dict[str, Any] = json.loads(made.output[-1])
    return found


def _end(machine: dict[str, Any]) -> End:
    return End(
        machine["step"], machine["owner"], machine["troubles"][0]["part"] if machine["troubles"] else "")


def _forms(user: str) -> list[bytes]:
    """As it stands, and as HTTP and URLs carry it."""
    return [PASSWORD.encode(), base64.b64encode(f"{user}:{PASSWORD}".encode()),
            urllib.parse.quote(PASSWORD).encode(), PASSWORD[::-1].encode()]


@contextmanager
def _watched() -> Iterator[set[int]]:
    """Looks at all processes, over and over; gives those that show the password."""
    seen: set[int] = set()
    over = threading.Event()

    def observe() -> None:
        while not over.wait(0.3):
            seen.update(pid for pid, text in processes() if PASSWORD.encode() in text)

    thread = threading.Thread(target=observe, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(10)
