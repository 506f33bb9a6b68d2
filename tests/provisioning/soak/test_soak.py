"""Step soak over a machine that is a folder: as many restarts as were asked for, whatever is killed, and what
comes back differently is named."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store import bringups
from healthcheck.store.bringups import TroubleLine
from healthcheck.store.file import opened
from provisioning.bringup.steps import soak as soakstep
from provisioning.soak.record import read
from tests.provisioning.bringup.scripted import Died
from tests.provisioning.soak.soakworld import DESIRED, NAME, WELL, World, soak

RESTARTS = ["cold", "cold", "warm", "warm"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soakstep, "_AGAIN_S", 0.05)
    monkeypatch.setattr(soakstep, "_SETTLE_S", 0.5)


def made(folder: Path) -> list[str]:
    return World(folder / "world", Died(0)).restarts


def shows(folder: Path, boots: dict[str, dict[str, Any]]) -> None:
    (folder / "world").mkdir(parents=True, exist_ok=True)
    (folder / "world/shows.json").write_text(json.dumps(boots))


def troubles(folder: Path) -> list[TroubleLine]:
    with opened(folder / "state") as store:
        return list(bringups.troubles(store))


def kept(folder: Path) -> str:
    with opened(folder / "state") as store:
        return bringups.progress(store)[0].kept.get("soak", "")


def test_a_sound_machine_is_restarted_as_often_as_stated_and_goes_on(tmp_path: Path) -> None:
    outcome = soak(tmp_path)
    assert outcome.done == (NAME,) and made(tmp_path) == RESTARTS and troubles(tmp_path) == []
    record = read(tmp_path / "state", NAME)
    assert record is not None and [one.kind for one in record.boots] == ["before", *RESTARTS]
    assert [one.boot for one in record.boots] == [f"boot-{number}" for number in range(5)]
    assert all(one.seconds is not None and one.seconds < 10 for one in record.boots[1:])
    assert kept(tmp_path).startswith("2 cold and 2 warm restarts; boots took cold ")
    with opened(tmp_path / "state") as store:
        assert [one.key for one in bringups.actions(store)] == [
            "off:soak-1", "on:soak-1", "off:soak-2", "on:soak-2", "reboot:soak-3", "reboot:soak-4"]
    assert (tmp_path / "state/soak/n1.json").stat().st_mode & 0o777 == 0o600


def gone(part: str) -> dict[str, Any]:
    return {"parts": {name: serial for name, serial in WELL["parts"].items() if name != part}}


@pytest.mark.parametrize(("boots", "owner", "words"), [
    ({"2": gone("gpu 0000:2a:00.0"), "4": gone("gpu 0000:2a:00.0")}, "vendor",
     "gpu 0000:2a:00.0 is not there after 2 of 4 restarts (cold and warm; numbers 2 (cold), 4 (warm))"),
    ({"1": {"parts": {**WELL["parts"], "nvme nvme0": "N9"}}}, "operator",
     "nvme nvme0 is another one after 1 of 4"),
    ({"3": {"whole": ["nvme"]}}, "operator", "its gpu parts could not be read after 1 of 4"),
    ({"3": {"pci": {**WELL["pci"], "0000:3b:00.0": ["0x020700", "0x15b3", "0x1021", "8", "32.0 GT/s PCIe"]}}},
     "vendor",
     "PCI link width of 0000:3b:00.0 (0x15b3:0x1021) is 8, and was 16, after 1 of 4"),
    ({"3": {"pci": {**WELL["pci"],
                    "0000:3b:00.0": ["0x020700", "0x15b3", "0x1021", "16", "16.0 GT/s PCIe"]}}}, "vendor",
     "PCI link speed of 0000:3b"),
    ({"2": {"pci": {"0000:18:00.0": WELL["pci"]["0000:18:00.0"]}}}, "vendor",
     "1 PCI function 0x15b3:0x1021 (class 0x020700) fewer than before"),
    ({"2": {"memory": 937_500}}, "vendor", "915 MiB of memory after 1 of 4"),
    ({"4": {"rules": {**WELL["rules"], "mounts": ["fail", "operator", "/data: not mounted"]}}}, "operator",
     "mounts fails after 1 of 4"),
    ({"4": {"forms": {"f1": "nvme nvme#: controller is down"}}}, "operator",
     "its kernel writes a new error after 1 of 4"),
    ({"4": {"log": None}}, "operator", "its kernel log could not be read after 1 of 4"),
])
def test_what_comes_back_differently_is_trouble_with_its_owner(tmp_path: Path,
                                                               boots: dict[str, dict[str, Any]], owner: str,
                                                               words: str) -> None:
    shows(tmp_path, boots)
    assert soak(tmp_path).trouble == (NAME,) and made(tmp_path) == RESTARTS
    (one,) = troubles(tmp_path)
    assert (one.step == "soak" and one.owner == owner and words in one.what
            and "muster bringup retry n1" in one.hand)


@pytest.mark.parametrize("boots", [
    {"2": {"pci": {**WELL["pci"], "0000:18:00.0": ["0x030200", "0x10de", "0x2330", "16", "32.0 GT/s PCIe"]}}},
    {"1": {"memory": 1_003_000}}, {"1": {"rules": {**WELL["rules"], "new-one": ["fail", "operator", "x"]}}},
    {"0": {"forms": {"f1": "x"}}, "2": {"forms": {"f1": "x"}}},
    {"0": {"pci": {**WELL["pci"], "0000:18:00.0": ["0x030200", "0x10de", "0x2330", "16", "32.0 GT/s PCIe"]}}},
])
def test_what_differs_by_itself_is_no_trouble(tmp_path: Path, boots: dict[str, dict[str, Any]]) -> None:
    shows(tmp_path, boots)
    assert soak(tmp_path).done == (NAME,) and not troubles(tmp_path)


def again(folder: Path) -> None:
    with opened(folder / "state") as store:
        bringups.retry(store, [NAME], "ada", time.time())


@pytest.mark.parametrize(("less", "words"), [
    (gone("gpu 0000:2a:00.0"), "1 gpu, and 2 before"),
    ({"whole": ["nvme"]}, "its gpu parts cannot be read, and could before"),
    ({"pci": {"0000:18:00.0": WELL["pci"]["0000:18:00.0"]}}, "0 PCI functions of class 0x0207, and 1 before"),
    ({"pci": {**WELL["pci"], "0000:3b:00.0": ["0x020700", "0x15b3", "0x1021", "8", "32.0 GT/s PCIe"]}},
     "PCI link width of 0000:3b:00.0 is 8, and was 16"),
    ({"memory": 937_500}, "915 MiB of memory, and 976 before"), ({"cpus": 6}, "6 processors, and 8 before"),
])
def test_a_fault_that_stays_is_not_what_a_retry_compares_with(tmp_path: Path, less: dict[str, Any],
                                                              words: str) -> None:
    shows(tmp_path, {str(number): less for number in range(2, 30)})
    assert soak(tmp_path).trouble == (NAME,) and made(tmp_path) == RESTARTS
    for _ in range(2):
        again(tmp_path)
        assert soak(tmp_path).trouble == (NAME,) and made(tmp_path) == RESTARTS
        (one,) = troubles(tmp_path)
        assert words in one.what and one.owner == "vendor" and "soak/n1.json" in one.hand
    shows(tmp_path, {})
    again(tmp_path)
    assert soak(tmp_path).done == (NAME,) and made(tmp_path) == RESTARTS * 2


def test_another_part_in_the_place_of_one_that_was_lost_is_a_repair(tmp_path: Path) -> None:
    repaired = {"parts": {**WELL["parts"], "gpu 0000:2a:00.0": "G7"}}
    shows(tmp_path, {"4": gone("gpu 0000:2a:00.0")})
    assert soak(tmp_path).trouble == (NAME,)
    shows(tmp_path, {str(number): repaired for number in range(4, 30)})
    again(tmp_path)
    assert soak(tmp_path).done == (NAME,) and made(tmp_path) == RESTARTS * 2


def test_a_machine_on_which_a_rule_fails_already_is_not_restarted(tmp_path: Path) -> None:
    shows(tmp_path, {"0": {"rules": {**WELL["rules"], "mounts": ["fail", "operator", "/data: not mounted"]}}})
    assert soak(tmp_path).trouble == (NAME,) and made(tmp_path) == []
    (one,) = troubles(tmp_path)
    assert one.owner == "operator" and one.what == "mounts fails before any restart: /data: not mounted"


def test_what_was_not_read_before_is_said_to_be_not_compared(tmp_path: Path) -> None:
    shows(tmp_path, {"0": {"pci": {}, "memory": None, "cpus": None, "log": None, "whole": ["gpu"],
                           "rules": {**WELL["rules"], "mounts": ["unknown", "operator", "timeout"]}}})
    assert soak(tmp_path).done == (NAME,)
    with opened(tmp_path / "state") as store:
        said = bringups.progress(store)[0].kept["soak"]
    assert said.endswith(
        "not compared, as not read before: dimm, hca, nvme, PCI functions, memory, processors, kernel "
        "log, mounts")


def test_what_was_measured_before_and_is_not_afterwards_is_waited_for_and_then_trouble(
        tmp_path: Path) -> None:
    shows(tmp_path, {"1": {"rules": {**WELL["rules"], "mounts": ["unknown", "operator", "timeout"]}}})
    soak(tmp_path, desired=replace(DESIRED, cold=1, warm=0, boot_s=0.5))
    (one,) = troubles(tmp_path)
    assert "mounts could not be judged after 1 of 1" in one.what and "timeout" in one.what


def test_a_machine_that_does_not_come_back_is_trouble_and_is_not_restarted_again(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    (tmp_path / "world/never").touch()
    assert soak(tmp_path, desired=replace(DESIRED, boot_s=0.5)).trouble == (NAME,)
    (one,) = troubles(tmp_path)
    assert made(tmp_path) == ["cold"]
    assert one.what.startswith(
        "restart 1 (cold): 0.5 s later it did not come back: connect: no route to host")
    assert "nothing of its console was captured" in one.what and one.owner == "datacentre"


def test_a_machine_that_restarts_unasked_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = World.judged

    def and_restarts(self: World, *given: Any) -> Any:
        found = judged(self, *given)
        self._starts("unasked")
        return found

    monkeypatch.setattr(World, "judged", and_restarts)
    assert soak(tmp_path).trouble == (NAME,) and made(tmp_path) == ["unasked"]
    (one,) = troubles(tmp_path)
    assert one.what == "it restarted, and muster had not asked it to"


def test_no_machine_that_has_a_job_is_restarted(tmp_path: Path) -> None:
    assert soak(tmp_path, idle="a job runs on it").trouble == (NAME,)
    assert made(tmp_path) == [] and "a job runs on it" in troubles(tmp_path)[0].what


@pytest.mark.timeout(400)
@pytest.mark.parametrize("points", [range(1, 18, 5), pytest.param(range(1, 18), marks=pytest.mark.slow)])
def test_killed_at_any_point_it_restarts_the_machine_no_more_often_than_stated(tmp_path: Path,
                                                                               points: range) -> None:
    died = 0
    for at in points:
        folder = tmp_path / str(at)
        pid = os.fork()
        if not pid:
            try:
                soak(folder, at)
            finally:
                os._exit(1)
        died += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        with opened(folder / "state") as store:
            written = {one.key for one in bringups.actions(store)}
        assert len(made(folder)) <= len({key for key in written if not key.startswith("off:")})
        assert soak(folder).done == (NAME,), troubles(folder)
        assert made(folder) == RESTARTS
        record = read(folder / "state", NAME)
        assert record is not None and [one.kind for one in record.boots] == ["before", *RESTARTS]
    assert died >= len(points) - 2
