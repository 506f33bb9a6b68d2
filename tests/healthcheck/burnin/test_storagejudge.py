"""Judging storage: by floors of each mount, as a whole for shared faults; unmeasured is never a pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.document import as_bytes
from healthcheck.burnin.documentread import read as read_document
from healthcheck.burnin.floors import Floors, approve, load_floors, write
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome, Judgement
from healthcheck.burnin.learn import learn
from healthcheck.burnin.model import (
    Accusation,
    BurnInStage,
    Object,
    RankReport,
    Seat,
    Task,
    TaskKind,
    TaskResult,
)
from healthcheck.burnin.wrongdata import wrong_data
from healthcheck.config.rulesfolder import packaged
from tests.healthcheck.burnin.made import (
    GIB,
    NCCL,
    PAIRED,
    RULES,
    burnin,
    burnt,
    places,
    result,
    sound,
    spread,
)

EIGHT = places(8)
ASKED = (*PAIRED, (BurnInStage.NODE, TaskKind.STORAGE))


def stored(rates: Mapping[str, float] | None = None, *, mount: str = "/scratch", kind: str = "xfs",
           at_once: int = 8, facts: Mapping[str, str] | None = None,
           change: Mapping[str, RankReport] | None = None) -> list[TaskResult]:
    """Storage tasks of all nodes, of which some read at another rate."""
    found = []
    for number, at in enumerate(EIGHT):
        of = Task(f"node-storage-{mount[1:]}-{at.node}", BurnInStage.NODE, TaskKind.STORAGE,
                  (Seat(at.node, 0),), 300.0, {"path": mount, "nodes": at_once})
        speed = (rates or {}).get(at.node, 6.0 * spread(number))
        found.append(result(of, {"storage_write_gb_s": 3 * spread(number), "storage_read_gb_s": speed,
                                 "size_bytes": 4 * GIB},
                            facts={**NCCL, "mount_type": kind,
                                   **((facts or {}) if at.node == "gpu003" else {})}, change=change))
    return found


@pytest.fixture(scope="module")
def floors(tmp_path_factory: pytest.TempPathFactory) -> Floors:
    """Learned from sound nodes, /scratch of each and /lustre of all, and approved."""
    folder = tmp_path_factory.mktemp("floors")
    whole = burnin(EIGHT, [*sound(EIGHT), *stored(),
                           *stored({at.node: 2.0 for at in EIGHT}, mount="/lustre", kind="lustre")],
                   asked=ASKED)
    learning = learn([read_document(as_bytes(whole), "x")], RULES, 0)
    write(folder / "proposed.yaml", learning.proposal)
    approve(folder / "proposed.yaml", folder / "rules", "the operator", "2026-11-23", RULES)
    return load_floors([packaged(), folder / "rules"])


def judged(floors: Floors, *more: TaskResult) -> Judgement:
    return judge(burnt(EIGHT, [*sound(EIGHT), *more], asked=ASKED), floors)


def named(of: Judgement) -> list[tuple[str, str]]:
    return [(one.name, one.fault) for one in of.accusations]


def test_floors_are_learned_for_each_mount_and_for_how_many_use_a_shared_one_at_once(floors: Floors) -> None:
    found = {(one.setting.figure, one.setting.mount): one.setting.nodes for one in floors.learned
             if one.setting.mount}
    assert found == {("storage_write_gb_s", "/scratch"): 1, ("storage_read_gb_s", "/scratch"): 1,
                     ("storage_write_gb_s", "/lustre"): 8, ("storage_read_gb_s", "/lustre"): 8}


def test_a_slow_mount_is_named_with_its_node_and_is_no_other_mount_s_floor(floors: Floors) -> None:
    of = judged(floors, *stored({"gpu003": 2.0}),
                *stored({at.node: 2.0 for at in EIGHT}, mount="/lustre", kind="lustre"))
    assert named(of) == [("gpu003", faults.SLOW_STORAGE)]
    assert (of.accusations[0].why.startswith("storage read of /scratch 2 GB/s, floor 5.")
            and of.accusations[0].object is Object.NODE)
    assert (of.outcomes[0].outcome is BurnInOutcome.PASS
            and of.outcomes[0].figures["storage_read_gb_s /scratch"] == pytest.approx(6, rel=0.01))


def test_a_mount_that_is_slow_on_most_nodes_accuses_none_of_them(floors: Floors) -> None:
    slow = {at.node: 0.5 for at in EIGHT[:5]}
    of = judged(floors, *stored(),
                *stored({**{at.node: 2.0 for at in EIGHT}, **slow}, mount="/lustre", kind="lustre"))
    assert (named(of) == [("storage /lustre", faults.SLOW_STORAGE)]
            and of.accusations[0].object is Object.UNEXPLAINED)
    assert "5 of 8 nodes have it" in of.accusations[0].why
    assert [one.outcome for one in of.outcomes] == [BurnInOutcome.UNKNOWN] * 5 + [BurnInOutcome.PASS] * 3


def test_a_mount_that_hangs_on_one_node_is_its_and_on_most_of_them_no_one_s(floors: Floors) -> None:
    hung = [Accusation(Object.NODE, at.node, faults.HUNG, "storage /scratch: it has not answered",
                       (f"node-storage-scratch-{at.node}",)) for at in EIGHT]
    assert named(judged(floors, *(replace(one, accusations=(hung[2],)) if at == 2 else one
                                  for at, one in enumerate(stored())))) == [("gpu003", faults.HUNG)]
    assert (named(judged(floors, *(replace(one, accusations=(hung[at],)) for at, one in enumerate(stored()))))
            == [("storage /scratch", faults.HUNG)])


def test_without_a_floor_and_where_it_was_not_measured_nodes_do_not_pass(floors: Floors) -> None:
    of = judged(Floors(RULES), *stored())
    assert not of.accusations and {one.outcome for one in of.outcomes} == {BurnInOutcome.UNKNOWN}
    assert ("storage_read_gb_s in node was not judged" in " ".join(of.outcomes[0].why)
            and not any(one.equals for one in of.held if one.setting.mount))
    of = judged(floors, *stored(facts={"not_measured": "1 GB are free"}))
    assert [one.node for one in of.outcomes if one.outcome is BurnInOutcome.UNKNOWN] == ["gpu003"]
    assert "storage /scratch was not measured: 1 GB are free" in of.outcomes[2].why


def test_wrong_words_are_the_mount_s_and_no_gpu_s(floors: Floors) -> None:
    bad = {"gpu003:0": RankReport(
               Seat("gpu003", 0), stored()[2].reports[0].end, stored()[2].reports[0].figures, wrong_total=3,
               facts={**NCCL, "mount_type": "xfs", "wrong_in": "byte 4096 of /scratch, bits 0x4"})}
    results = [replace(one, accusations=wrong_data(one.task, one.reports)) for one in stored(change=bad)]
    of = judged(floors, *results)
    assert named(of) == [("gpu003", faults.WRONG_STORAGE)]
    assert (of.accusations[0].why == "storage /scratch: 3 words differ from what was written, the first at "
            "byte 4096 of /scratch, bits 0x4")
