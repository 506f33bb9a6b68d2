"""A node installed again, or another machine of its name: a sick one is isolated again."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import Store, opened
from healthcheck.store.hardware import machine_identity
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import Act, TriagePlan, make
from provisioning.actions.hostfile import HostFile
from provisioning.triage import apply as doing
from tests.healthcheck.triage.test_gather import HOUR, NODES, POLICY, swept


def planned(store: Store, back: HostFile, hour: float) -> TriagePlan:
    view = doing.view(store, back, doing.shown(store, back, [node.name for node in NODES]))
    return make(gather(store, NODES, POLICY, hour * HOUR, lost=view.lost, others=view.others), POLICY)


@pytest.mark.parametrize(("serial", "again"), [("Y", True), ("X", False)])
@pytest.mark.parametrize("settled", [True, False])
def test_a_cordon_that_went_with_its_machine_was_ended_by_no_person(
    tmp_path: Path, serial: str, again: bool, settled: bool,
) -> None:
    back = HostFile(tmp_path / "bad")
    with opened(tmp_path, make=True) as store:
        swept(store, 1, {"n1": {"chassis": "X"}, "n2": {}}, bad="n1")
        done = doing.apply(
            store, back, planned(store, back, 1.1), "triage", lambda: 1.1 * HOUR, lambda one: None)
        assert [one.node for one in done] == [
            "n1"] and open_cordons(store)[0].identity == machine_identity(store, "n1") != ""
        back.path.write_text("")
        swept(store, 2, {"n1": {"chassis": serial}, "n2": {}}, bad="n1")
        if settled:
            over = doing.resolve_lost(store, back, "triage", lambda: 2.2 * HOUR)
            assert [
                one.node for one in over
                if "is over: it registered or was installed anew" in one.message] == (["n1"] if again else [])
            assert store.rows(
                "SELECT state FROM cordon")[0][0] == (CordonState.ANEW if again else CordonState.VOID).value
        plan = planned(store, back, 2.2)
        assert [(step.act, step.node) for step in plan.steps] == ([(Act.ISOLATE, "n1")] if again else [])
        assert again or "against muster:" in plan.withheld[0].why
