"""Taking steps: not beside a job, one domain after the other, none after one that did harm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.store.file import Store, opened
from healthcheck.store.leases import open_leases
from healthcheck.store.ledger import lines
from healthcheck.triage.remediation import RemediationStep
from inventory.model import Node, Privilege
from provisioning.lease.idle import IdleReport
from provisioning.remediate.execute import execute, unproven
from provisioning.remediate.record import RemediationOutcome, tries
from provisioning.remediate.resume import resume
from provisioning.remediate.steps import IdleProof, rootless
from tests.provisioning.remediate.world import Restarting, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, [f"n{at}" for at in range(1, 9)], monkeypatch)


@pytest.fixture
def store(world: World) -> Iterator[Store]:
    with opened(world.folder, make=True) as opened_:
        yield opened_


def took(world: World) -> list[str]:
    return [name for name, one in world.machines.items() if one.took]


def test_nothing_is_done_beside_a_job_or_a_process_or_where_others_hold_the_node(
    world: World, store: Store,
) -> None:
    world.backend.busy = {"n1"}
    world.machines["n2"].process = "process 4711 (python) runs on GPU 3"
    world.backend.write("n3", "fan, Tuesday")
    done = {
        one.node: one.message for one in execute(world.context(store), world.works("n1", "n2", "n3", "n4"))}
    assert done["n1"] == "NOT done: a job is on it"
    assert done["n2"] == "NOT done: no lease: process 4711 (python) runs on GPU 3"
    assert done["n3"] == "NOT done: no lease: others hold it: fan, Tuesday"
    assert done["n4"].startswith("restart-docker: done: docker-answers passes")
    assert took(world) == ["n4"] and world.backend.holds == {"n3": "fan, Tuesday"}
    assert [line.node for line in lines(store) if line.action == "restart-service"] == ["n4"]


@pytest.mark.parametrize("step", RemediationStep)
def test_whatever_step_is_sent_its_node_is_cordoned_and_leased_then_though_the_fault_isolates_none(
    world: World, store: Store, step: RemediationStep,
) -> None:
    send = world.send
    held: list[tuple[set[str], set[str]]] = []

    def looked(nodes: Mapping[str, Node], *words: object) -> Iterator[object]:
        leased = {name for lease in open_leases(store) for name in lease.nodes}
        held.append(({node.name for node in nodes.values()} - set(world.backend.holds),
                     {node.name for node in nodes.values()} - leased))
        yield from send(nodes, *words)  # type: ignore[arg-type]

    works = [replace(work, fault="warning") for work in world.works("n1", "n2", step=step)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("provisioning.remediate.execute.send", looked)
        execute(world.context(store), works)
    assert held == [(set(), set())] and took(world) == ["n1", "n2"]


def test_whoever_interrupts_it_leaves_the_node_held_until_the_next_run_has_looked(
    world: World, store: Store,
) -> None:
    send = world.send

    def cut(*words: object) -> Iterator[object]:
        list(send(*words))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("provisioning.remediate.execute.send", cut)
        execute(world.context(store), world.works("n1"))
    assert list(world.backend.holds) == ["n1"] and not open_leases(store)
    assert [one.message.split(":")[1] for one in resume(world.context(store))] == [" done"]
    assert world.backend.holds == {} and len(world.machines["n1"].took) == 1


def test_a_node_that_cannot_be_asked_what_became_of_it_is_not_taken_for_untouched(
    world: World, store: Store,
) -> None:
    context = world.context(store)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("provisioning.remediate.execute.send", interrupted)
        execute(context, world.works("n1"))
    world.machines["n1"].reached = False
    (one,) = resume(world.context(store))
    assert one.message.startswith(
        "restart-docker: not back: connect: refused") and list(world.backend.holds) == ["n1"]


def interrupted(*_: object) -> Iterator[object]:
    raise KeyboardInterrupt


def test_a_node_that_we_held_before_stays_held(world: World, store: Store) -> None:
    from provisioning.actions.cordon import cordon

    cordon(store, world.backend, ["n1"], "Xid 79", "a person", lambda: 1.0)
    assert not any(one.failed for one in execute(world.context(store), world.works("n1", "n2")))
    assert list(world.backend.holds) == ["n1"]


def test_a_second_domain_is_begun_only_when_all_of_the_first_passed(world: World, store: Store) -> None:
    world.machines["n2"].helps = False
    works = [*world.works("n1", "n2", "n3", domain="rack r1"), *world.works("n4", domain="rack r2")]
    done = {one.node: one.message for one in execute(world.context(store), works)}
    assert took(world) == ["n1", "n2", "n3"]
    assert done["n2"] == "restart-docker: no use: docker-answers does not pass: it was restarted"
    assert done["n4"] == "not started: not all nodes of rack r1 passed, so no other domain is started"
    assert world.backend.holds == {}


@pytest.mark.parametrize(("harm", "word"), [("breaks", "worse"), ("goes", "not back")])
def test_a_step_that_does_harm_ends_it_within_its_domain_too_and_keeps_the_cordon(
    world: World, store: Store, harm: str, word: str,
) -> None:
    world.machines["n2"].breaks = "gpu-count" if harm == "breaks" else ""
    world.machines["n2"].comes_back = harm != "goes"
    context = world.context(store)
    context.policy = replace(context.policy, at_once=2)
    done = {one.node: one.message for one in execute(context, world.works("n1", "n2", "n3", "n4"))}
    assert took(world) == ["n1", "n2"] and list(world.backend.holds) == ["n2"]
    assert done["n2"].startswith(
        f"restart-docker: {word}: ") and done["n3"].startswith("not started: restart-docker on n2 ended")
    # No later run gives it back, though the node may be well again by then.
    world.machines["n2"].reached, world.machines["n2"].wrong = True, set()
    assert resume(world.context(store)) == [] and list(world.backend.holds) == ["n2"]


def test_at_most_so_many_nodes_are_held_at_a_time(world: World, store: Store) -> None:
    context = world.context(store)
    context.policy = replace(context.policy, at_once=3)
    held: list[int] = []
    send = world.send

    def counted(*words: object) -> object:
        held.append(len(world.backend.holds))
        return send(*words)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("provisioning.remediate.execute.send", counted)
        execute(context, world.works())
    assert held == [3, 3, 2] and len(took(world)) == 8


def test_what_touched_nothing_is_no_attempt_and_what_did_is_one(world: World, store: Store) -> None:
    context = world.context(store)
    world.machines["n1"].helps = False
    execute(context, world.works("n1"))
    assert tries(store, context.policy, 1000.0)["n1", RemediationStep.RESTART_DOCKER] == 1
    world.backend.busy = {"n1"}
    execute(context, world.works("n1"))
    assert tries(store, context.policy, 1000.0)["n1", RemediationStep.RESTART_DOCKER] == 1
    assert tries(store, context.policy, 1000.0 + 8 * 86400) == {}


def test_a_scheduler_that_can_restarts_the_node_and_both_lines_say_so(world: World, store: Store) -> None:
    world.backend = Restarting(world.point, world.machines)
    done = {
        one.node: one.message
        for one in execute(world.context(store), world.works("n1", step=RemediationStep.REBOOT))}
    assert done["n1"].startswith("reboot: done: docker-answers passes")
    ends = [str(line.outcome) for line in lines(store) if line.action == "reboot"]
    assert ends[0].startswith("done: ") and ends[1].startswith("rebooted, and held still as muster:")
    assert took(world) == [] and world.backend.holds == {}


def test_a_node_that_has_not_restarted_is_not_mended_though_its_check_passes(
    world: World, store: Store,
) -> None:
    done = {
        one.node: one.message
        for one in execute(world.context(store), world.works("n1", step=RemediationStep.REBOOT))}
    assert done["n1"] == "reboot: no use: it has not restarted: it was restarted"


@pytest.mark.parametrize(
    ("proof", "refused", "without", "unsaid", "may"),
    [(IdleProof.GPUS, "", False, False, True),
     (IdleProof.GPUS, "process 7 runs on GPU 0", False, False, False),
     (IdleProof.GPUS, "what runs on its GPUs is not known: NVML: timeout", False, False, False),
     (IdleProof.EITHER, "what runs on its GPUs is not known: NVML: timeout", False, False, True),
     (IdleProof.EITHER, "what runs on its GPUs is not known: NVML: timeout", False, True, False),
     (IdleProof.EITHER, "process 7 runs on GPU 0", False, False, False),
     (IdleProof.JOBS, "process 7 runs on GPU 0", False, False, True), (IdleProof.JOBS, "", True, True, False),
     (IdleProof.JOBS, "", True, False, True), (IdleProof.JOBS, "it was not checked", False, True, False)])
def test_what_must_show_that_nothing_computes(
    proof: IdleProof, refused: str, without: bool, unsaid: bool, may: bool,
) -> None:
    looked = IdleReport({"n1": refused} if refused else {}, frozenset({"n1"} if without else ()))
    assert (unproven("n1", proof, looked, frozenset({"n1"} if unsaid else ())) == "") is may


def test_a_step_goes_as_root_or_through_sudo_and_never_through_the_helper() -> None:
    assert rootless(Node("n1", user="root")) == rootless(
        Node("n1")) == rootless(Node("n1", user="ada", privilege=Privilege.BECOME)) == ""
    assert "needs root there, and ada is not" in rootless(Node("n1", user="ada", privilege=Privilege.HELPER))


def test_only_what_came_to_a_good_end_is_a_repair_for_triage() -> None:
    from healthcheck.triage.gather import _DONE

    assert [
        how for how in RemediationOutcome if f"{how.value}: x".startswith(_DONE)] == [RemediationOutcome.DONE]
