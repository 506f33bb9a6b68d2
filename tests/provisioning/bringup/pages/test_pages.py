"""How a bring-up stands and what it would do: whole pages, the document, who is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.store import bringupnotes as notes
from healthcheck.store import bringups
from healthcheck.store.bringups import MachineProgress, SkipLine, StepLine, TroubleLine
from healthcheck.store.file import opened
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.nodeset import fold
from inventory.text import clean
from provisioning.bringup.engine.choose import chosen
from provisioning.bringup.engine.model import ORDER, BringupStep, StepEffect
from provisioning.bringup.engine.site import LOCK
from provisioning.bringup.pages import plan as planpage
from provisioning.bringup.pages import status
from provisioning.bringup.pages.masked import masked
from provisioning.bringup.pages.plan import refusals
from provisioning.bringup.pages.progress import STANDS, BringupStatus, code, document, progress
from provisioning.lease.runlock import alone, locked
from tests.documents import schema
from tests.goldens import golden
from tests.provisioning.bringup.filled import LOGIN, NOW, OWNERS, PSU, many, place, shown, small, walked
from tests.tries import tries

SCHEMA = schema("bringup-1")


def plain(text: str, kind: str) -> str:
    return text


def lines(of: BringupStatus) -> list[str]:
    return list(status.lines(of, fold, plain))


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    small(folder)
    return folder


def test_the_page_of_a_dozen_machines(some: Path) -> None:
    golden("bringup-status.txt", "\n".join(lines(shown(some))) + "\n")


def test_the_document_of_a_dozen_machines(some: Path) -> None:
    found = document(shown(some))
    jsonschema.validate(found, SCHEMA)
    golden("bringup-status.json", json.dumps(found, indent=1) + "\n")


def test_a_step_that_was_skipped_is_never_counted_as_passed(some: Path) -> None:
    bios = next(one for one in shown(some).counts if one.step == "bios")
    assert (bios.through, bios.skipped) == (7, 1)


def test_a_machine_that_goes_its_way_again_is_not_yet_through_what_it_passed_before(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        walked(store, "gpu001", "service", began=NOW - 9000, since=NOW - 5000, stand=notes.DONE)
        walked(store, "gpu001", "os", began=NOW - 1000, since=NOW - 500)
    counts = {one.step: one.through for one in shown(tmp_path).counts}
    assert counts == {step: int(ORDER.index(step) < ORDER.index("os")) for step in ORDER}


def test_machines_of_which_the_same_is_reported_are_on_one_line_and_every_trouble_of_a_machine_is_reported(
    some: Path,
) -> None:
    text = "\n".join(lines(shown(some)))
    assert ("gpu[003,012]  hardware     trouble" in text and "gpu[007-009]  os" in text
            and "DIMM A1 is not seen" in text)


def test_what_differs_in_a_machine_s_own_name_and_address_alone_is_reported_of_all_at_once(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, make=True) as store:
        for number in (1, 2, 12):
            name = f"gpu{number}"
            lost = Trouble(f"the BMC of {name} at 10.0.0.{number} does not answer", Owner.DATACENTRE,
                           f"look at {name}'s cable, then: muster bringup retry {name}")
            walked(store, name, "bmc", began=NOW, since=NOW, stand=notes.TROUBLE, troubles=(lost,))
    text = lines(shown(tmp_path))
    assert text[-2].startswith(
        "gpu[1-2,12]  bmc") and text[-2].endswith("the BMC of NODE at ADDRESS does not answer")
    assert text[-1] == "    next: look at gpu[1-2,12]'s cable, then: muster bringup retry 'gpu[1-2,12]'"


@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from(["gpu1", "a", "x.y", "n-1"]))
def test_masking_twice_is_masking_once(text: str, node: str) -> None:
    once = masked(f"{text} {node} {text}", node)
    assert masked(once, node) == once and " NODE " in once


def test_a_name_within_a_word_and_a_version_are_left_as_they_are() -> None:
    assert (masked("gpu1 gpu12 my-gpu1 gpu1.example.org 10.0.0.1 1.2.3.4.5 22.05.9", "gpu1")
            == "NODE gpu12 my-gpu1 NODE.example.org ADDRESS 1.2.3.4.5 22.05.9")


@pytest.mark.parametrize(("running", "said"),
                         [(True, "; a run is active"),
                          (False, "; no run is active: muster bringup resume"), (None, " 2 queued")])
def test_the_first_line_says_whether_anybody_is_at_work(some: Path, running: bool | None, said: str) -> None:
    assert status.summary(shown(some, running=running)).endswith(said)


def test_where_all_that_is_left_is_in_trouble_the_first_line_says_what_to_type_afterwards(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, make=True) as store:
        walked(store, "gpu001", "os", began=NOW, since=NOW, stand=notes.TROUBLE, troubles=(PSU,))
        walked(store, "gpu002", "service", began=NOW, since=NOW, stand=notes.DONE)
    assert status.summary(
        shown(tmp_path, running=False)).endswith("; once that is repaired: muster bringup resume")


def test_a_machine_is_stuck_since_it_came_to_its_step_however_often_it_was_looked_at_since(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, make=True) as store:
        walked(
            store, "gpu001", "os", began=NOW - 9000, since=NOW - 7200, stand=notes.TROUBLE, troubles=(PSU,))
        with store.writing() as db:
            notes.troubled(db, "gpu001", "os", (), NOW - 60)
            notes.troubled(db, "gpu001", "os", [("no lease", "network", "look", "", "", "")], NOW - 30)
    assert "2026-11-22T04:00Z  2 h" in lines(shown(tmp_path))[-2]


def test_the_lock_of_a_run_says_that_it_is_at_work_and_asking_does_not_take_it(tmp_path: Path) -> None:
    assert locked(tmp_path / LOCK) is False
    with alone(tmp_path, LOCK, "bringup run"):
        assert locked(tmp_path / LOCK) is True
    assert locked(tmp_path / LOCK) is False
    with alone(tmp_path, LOCK, "bringup run"):
        pass


def test_the_exit_code_is_that_of_the_worst(tmp_path: Path) -> None:
    def after(**stands: str) -> int:
        folder = tmp_path / "-".join(stands.values()) if stands else tmp_path / "none"
        with opened(folder, make=True) as store:
            for name, stand in stands.items():
                walked(store, name, "service" if stand == notes.DONE else "os", began=NOW, since=NOW,
                       stand=stand, troubles=(PSU,) if stand == notes.TROUBLE else ())
        return code(shown(folder))

    assert after() == 3
    assert after(a=notes.DONE) == 0
    assert after(a=notes.DONE, b=notes.LEFT) == 0
    assert after(a=notes.DONE, b=notes.WAITING) == after(a=notes.QUEUED) == 3
    assert after(a=notes.DONE, b=notes.WAITING, c=notes.TROUBLE) == 1


hostile = st.text(max_size=30) | st.sampled_from(["[red]x", "\x1b[2J", "x\nbmc  9", "\u202egpu", "a" * 5000])
progresses = st.builds(
    MachineProgress, st.sampled_from([f"gpu{at:03d}" for at in range(9)]), st.just(NOW - 99), hostile,
    st.sampled_from(ORDER), st.floats(0, NOW), st.sampled_from(STANDS), hostile,
    st.none() | st.floats(0, NOW), st.none() | st.floats(0, NOW), st.none() | st.floats(0, NOW),
    st.dictionaries(st.sampled_from(["serial", "boot"]), hostile))
names = st.sampled_from([f"gpu{at:03d}" for at in range(9)])
steps = st.sampled_from(ORDER)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=tries(50))
@given(st.lists(progresses, unique_by=lambda one: one.node, max_size=9),
       st.lists(st.builds(TroubleLine, names, steps, hostile,
                          st.sampled_from([*(one.value for one in Owner), "nobody"]), hostile, hostile,
                          hostile, hostile, st.floats(0, NOW), st.none()), max_size=6),
       st.lists(st.builds(SkipLine, names, steps, hostile, hostile, st.floats(0, NOW)), max_size=4),
       st.lists(st.builds(StepLine, names, steps, st.floats(NOW - 200, NOW), st.none(),
                          st.sampled_from(["so", "skipped", "retried", None]), hostile), max_size=9))
def test_whatever_the_store_holds_the_page_is_printable_and_the_document_as_its_schema_says(
    rows: list[MachineProgress], troubles: list[TroubleLine], skips: list[SkipLine],
    passed: list[StepLine],
) -> None:
    found = progress(rows, troubles, skips, passed, NOW, owners=OWNERS)
    text = lines(found)
    assert all(clean(line, 1000) == line for line in text)
    jsonschema.validate(json.loads(json.dumps(document(found))), SCHEMA)
    there = sum(sum(one.here.values()) for one in found.counts)
    assert there == sum(spot.stand in (notes.QUEUED, notes.WAITING, notes.TROUBLE) for spot in found.spots)
    for count in found.counts:
        assert count.through + count.skipped <= len(found.spots)


def test_a_thousand_machines_in_all_stands(tmp_path: Path) -> None:
    many(tmp_path, 1000)
    found = shown(tmp_path)
    assert len(found.spots) == 1000 and found.number(notes.TROUBLE) == 100 and found.number(notes.DONE) == 300
    jsonschema.validate(document(found), SCHEMA)
    assert len(lines(found)) < 200


STEPS = {
    name: BringupStep(
        name, f"{name} is well",
        StepEffect.DISRUPTIVE if name in ("bios", "os", "leased", "burnin") else StepEffect.PASSIVE,
        OWNERS[name],
        86400.0 if name == "burnin" else 900.0, 64, 8 if name in ("bios", "os") else None) for name in ORDER}


def plan(
    nodes: list[Node], without: frozenset[str] = frozenset(),
    progress: dict[str, MachineProgress] | None = None, skips: dict[str, tuple[str, ...]] | None = None,
) -> list[str]:
    found = chosen(nodes, progress or {}, skips or {}, without)
    why = {(node, step): "ops: no way to look at it" for node, over in (skips or {}).items() for step in over}
    return list(planpage.lines(found, STEPS, without, why, fold))


def at(node: str, step: str, stand: str = notes.QUEUED) -> MachineProgress:
    return MachineProgress(node, NOW, "ops", step, NOW, stand, "", None, None,
                           NOW if stand in (notes.DONE, notes.LEFT) else None)


def test_the_plan_of_a_rack_and_a_half() -> None:
    service = Lifecycle(LifecycleState.SERVICE)
    nodes = [
        *(place(f"gpu{number:03d}", power="pdu-a" if number < 9 else "pdu-b") for number in range(1, 11)),
        place("gpu011", bmc=None), place("gpu012", lifecycle=service), place("gpu013", lifecycle=service),
        place("gpu014", lifecycle=Lifecycle(LifecycleState.RMA)), place("gpu015", power=None)]
    text = plan(nodes, frozenset({"agent"}),
                {"gpu002": at("gpu002", "checks"), "gpu012": at("gpu012", "service", notes.DONE)},
                {"gpu003": ("bios",)})
    golden("bringup-plan.txt", "\n".join(text) + "\n")


def test_a_plan_has_as_many_rounds_as_the_fullest_power_domain() -> None:
    bios = replace(STEPS["bios"], in_parallel=10, domain_at_once=4)
    nodes = [place(f"gpu{number:03d}", power="pdu-a") for number in range(1, 10)]
    assert planpage.rounds(bios, nodes) == 3
    assert planpage.rounds(
        bios, [replace(node, power=f"pdu-{number % 3}") for number, node in enumerate(nodes)]) == 1
    assert planpage.rounds(replace(bios, domain_at_once=None, in_parallel=2), nodes) == 5


@pytest.mark.parametrize(
    ("node", "progress", "said"),
    [(place("gpu001", lifecycle=Lifecycle()), {},
      "its lifecycle is service, and only planned and bringup are brought up; type: muster inventory "
      "lifecycle gpu001 bringup"),
     (place("gpu001", lifecycle=Lifecycle(LifecycleState.MAINTENANCE)), {}, "its lifecycle is maintenance"),
     (place("gpu001", bmc=None), {},
      "muster bringup skip gpu001 --step bmc --step credentials --step hardware --step bios --step boot "
      "--reason TEXT"),
     (place("gpu001", lifecycle=Lifecycle()), {"gpu001": at("gpu001", "service", notes.LEFT)},
      "its lifecycle is service")])
def test_who_is_refused_is_reported_why_and_what_to_type(
    node: Node, progress: dict[str, MachineProgress], said: str,
) -> None:
    found = chosen([node], progress, {}, ())
    assert not found.plans and not found.through
    line, = refusals(found.refused, fold)
    assert line.startswith("gpu001: refused: ") and said in line


def test_many_refused_for_one_reason_are_on_one_line_that_a_shell_takes() -> None:
    found = chosen([place(f"gpu{number:03d}", lifecycle=Lifecycle()) for number in range(1, 9)], {}, {}, ())
    line, = refusals(found.refused, fold)
    assert line.endswith("type: muster inventory lifecycle 'gpu[001-008]' bringup")


@pytest.mark.parametrize(("node", "progress", "skips", "without", "steps"), [
    (place("gpu001"), {}, (), (), ORDER),
    (place("gpu001", lifecycle=Lifecycle(LifecycleState.PLANNED)), {}, (), (), ORDER),
    (place("gpu001"), {"gpu001": at("gpu001", "checks", notes.TROUBLE)}, (), (), ORDER[9:]),
    (place("gpu001"), {"gpu001": at("gpu001", "service", notes.DONE)}, (), (), ORDER),
    (place("gpu001", bmc=None), {"gpu001": at("gpu001", "ssh")}, (), (), ORDER[6:]),
    (place("gpu001", bmc=None), {}, ("os",), ORDER[:5], ORDER[6:]),
    (place("gpu001", bmc=None), {}, (), ORDER[:5], ORDER[5:]),
    (place("gpu001", lifecycle=Lifecycle()), {"gpu001": at("gpu001", "service")}, (), (), ORDER[-1:]),
])
def test_the_steps_that_are_still_to_go(
    node: Node, progress: dict[str, MachineProgress], skips: tuple[str, ...], without: tuple[str, ...],
    steps: tuple[str, ...],
) -> None:
    found = chosen([node], progress, {node.name: skips}, without)
    assert [one.steps for one in found.plans] == [steps] and not found.refused


def test_a_login_that_was_refused_is_ours_and_its_hand_says_what_to_type(some: Path) -> None:
    spot = next(one for one in shown(some).spots if one.node == "gpu005")
    assert (spot.owner, spot.what, spot.hand) == (Owner.OPERATOR, LOGIN.what, LOGIN.hand)


def test_a_machine_that_waits_is_owned_by_whom_the_policy_names_for_the_step(some: Path) -> None:
    with opened(some) as store:
        found = progress(
            bringups.progress(store, ["gpu007"]), (), (), (), NOW, owners={**OWNERS, "os": Owner.NETWORK})
    assert found.spots[0].owner is Owner.NETWORK and not found.spots[0].hand
