"""What a slow controller's try has read is not asked for again by the next try of that step."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import Controller, HardwareInventory
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.redfish.controller import RedfishController
from provisioning.bmc.redfish.crawl import Frontier, KeptDocuments, KeptTries, ToRead
from provisioning.bmc.redfish.wire import Deadline, RedfishEndpoint
from provisioning.bringup.engine.model import Observation, StepState
from provisioning.bringup.steps.duplicates import Duplicates
from provisioning.bringup.steps.hardware import HardwareAsOrdered
from tests.provisioning.bmc.redfishdocs import service
from tests.provisioning.bmc.test_redfish_vendors import hgx
from tests.provisioning.bringup.controllers import NODE, POLICY, machine, sku_of


class Clock:
    """Time that passes when somebody answers."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds


class Slow:
    """A service without `$expand` of which each answer takes a second, of whichever connection."""

    def __init__(self, documents: Mapping[str, Any], clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self.asked: list[str] = []

    def ask(self, method: str, path: str, headers: Any, body: Any, deadline: Deadline) -> HttpAnswer:
        deadline.left()
        self._clock.passes(1.0)
        self.asked.append(path)
        deadline.left()
        found = self._documents.get(path.rstrip("/"))
        if method != "GET" or found is None:
            return HttpAnswer(204 if found else 404, {}, b"{}")
        return HttpAnswer(200, {}, json.dumps(found).encode())

    def open(self, deadline: Deadline) -> None:
        """It is open."""

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("provisioning.bmc.redfish.session.Deadline",
                        lambda seconds: Deadline(seconds, found))
    return found


def tried(slow: Slow, kept: KeptDocuments | None, seconds: float) -> HardwareInventory:
    """One look, as a process of bring-up begins it: another connection, another login."""
    controller = RedfishController(RedfishEndpoint("gpu001", "127.0.0.1", 443, "pin", "0" * 64),
                                   lambda: ("root", Hidden("pw")), seconds, kept=kept)
    controller.session._wire = slow  # type: ignore[assignment]
    controller.session._connection = lambda: slow  # type: ignore[assignment,method-assign,return-value]
    return controller.hardware()


def whole(found: HardwareInventory) -> bool:
    return found == service(hgx())[0].hardware()


def test_tries_that_are_each_too_short_come_to_the_whole_together(clock: Clock) -> None:
    slow, kept = Slow(hgx(), clock), KeptDocuments(1200.0, clock)
    found, tries = None, 0
    while found is None or not whole(found):
        assert (tries := tries + 1) < 6
        found = tried(slow, kept, 9.0)
        assert kept.cut is not whole(found)
    assert tries > 1
    parts = [path for path in slow.asked if "/Processors" in path]
    # what was under way when a try's time was over is asked for once more
    assert len(parts) < 1.5 * len(set(parts))


def test_without_what_was_kept_no_try_ever_ends(clock: Clock) -> None:
    slow = Slow(hgx(), clock)
    assert not any(whole(tried(slow, None, 9.0)) for _ in range(6))


def test_what_is_older_than_its_limit_is_read_again(clock: Clock) -> None:
    slow, kept = Slow(hgx(), clock), KeptDocuments(100.0, clock)
    tried(slow, kept, 60.0)
    before = len(slow.asked)
    clock.passes(200.0)
    assert whole(tried(slow, kept, 60.0))
    assert len(slow.asked) - before >= 18


def step_of(slow: Slow, tries: KeptTries, seconds: float) -> HardwareAsOrdered:
    def opened(_: object) -> Controller:
        controller = RedfishController(RedfishEndpoint("gx01", "127.0.0.1", 443, "pin", "0" * 64),
                                       lambda: ("root", Hidden("pw")), seconds, kept=tries.of("gx01"))
        controller.session._wire = slow  # type: ignore[assignment]
        controller.session._connection = lambda: slow  # type: ignore[assignment,method-assign,return-value]
        return controller

    return HardwareAsOrdered(POLICY.steps["hardware"], opened, POLICY, sku_of,
                             Duplicates(dict, None), tries)


def looked(step: HardwareAsOrdered, began: float = 1000.0) -> Observation:
    (_, found), = step.observe([replace(machine(NODE), began=began)])
    return found


def test_the_step_keeps_them_for_its_own_time_in_one_machine_alone(clock: Clock) -> None:
    tries = KeptTries(1200.0, clock)
    step = step_of(Slow(hgx(), clock), tries, 9.0)
    assert looked(step).stand is StepState.UNKNOWN
    kept = tries.of("gx01")
    assert kept is not None and kept.get("/redfish/v1/Systems") is not None
    tries.begin("gx01", 2000.0)     # the machine was begun anew
    again = tries.of("gx01")
    assert again is not None and again.get("/redfish/v1/Systems") is None
    assert tries.of("gx02") is None


def test_after_a_look_that_decided_nothing_is_kept(clock: Clock) -> None:
    tries = KeptTries(1200.0, clock)
    assert looked(step_of(Slow(hgx(), clock), tries, 500.0)).stand is StepState.TROUBLE
    assert tries.of("gx01") is None


def test_a_machine_that_never_comes_again_is_forgotten_with_what_was_kept_of_it(clock: Clock) -> None:
    tries = KeptTries(100.0, clock)
    tries.begin("gx01", 1000.0)
    clock.passes(101.0)
    tries.begin("gx02", 1000.0)
    assert tries.of("gx01") is None and tries.of("gx02") is not None


def test_what_is_kept_of_one_machine_is_bounded() -> None:
    kept = KeptDocuments(100.0)
    for at in range(40):
        kept.put(f"/redfish/v1/{at}", json.dumps({"a": os.urandom(100_000).hex()}).encode())
    held = [at for at in range(40) if kept.get(f"/redfish/v1/{at}") is not None]
    assert 5 < len(held) < 20 and held[0] == 0


def test_a_path_is_taken_once_and_what_it_leads_to_first() -> None:
    frontier = Frontier([ToRead("/leaf"), ToRead("/list", lambda found: ()), ToRead("/leaf")])
    assert [one.path for one in frontier.taken()] == ["/list", "/leaf"]


def test_who_has_nothing_to_do_waits_for_what_another_is_reading() -> None:
    frontier = Frontier([ToRead("/list", lambda found: [ToRead("/a")])])
    first = frontier.taken()
    one = next(first)
    got: list[str] = []
    waits = threading.Thread(target=lambda: got.extend(found.path for found in frontier.taken()))
    waits.start()
    assert one.onward is not None
    frontier.add(one.onward({}))
    first.close()       # type: ignore[attr-defined]
    waits.join(10)
    assert got == ["/a"] and not waits.is_alive()
