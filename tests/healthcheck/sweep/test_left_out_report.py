"""What a sweep shows of nodes that it left out: never among those that passed, and always by what
evidence."""

from __future__ import annotations

from types import SimpleNamespace

from healthcheck.cli.every import _unchanged, _visible
from healthcheck.cli.fromprometheus import to_visit, with_left_out
from healthcheck.model.agentmetric import AgentBasis, AgentEvidence
from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status, exit_code
from healthcheck.report import document
from healthcheck.report.nodes import lines, row
from healthcheck.report.table import Heading
from healthcheck.store.history import Spell
from healthcheck.sweep.assess import Assessed
from healthcheck.sweep.fromagents import SweepChoice, Visit
from healthcheck.sweep.sweep import SweepPlan, SweepResult
from healthcheck.triage.past import NodeHistory
from inventory.model import Node
from tests.documents import validate
from tests.healthcheck.assessing import page_of
from tests.packagedrules import RULES

EVIDENCE = AgentEvidence(1_795_000_000.25, AgentBasis("b", "e", "timer", "r", "hgx-h100", "1.0"),
                         "node n1:9100")
PLAN = SweepPlan([Node(f"n{number}", sku="hgx-h100") for number in range(1, 5)], RULES, profiles=("timer",))


def swept(visited: str, status: Status = Status.PASS) -> SweepResult:
    """A sweep of four nodes that visited this one."""
    left = {node.name: EVIDENCE for node in PLAN.nodes if node.name != visited}
    choice = SweepChoice({visited: Visit.SAMPLE}, left)
    assert [node.name for node in to_visit(PLAN, choice).nodes] == [visited]
    state = NodeState.HEALTHY if status is Status.PASS else NodeState.UNHEALTHY
    report = NodeReport(visited, state, "", (Result("gpu-count", "gpu.count", status, Severity.CRITICAL),))
    return with_left_out(PLAN, choice, SweepResult(Assessed((report,)), "a", "b", 1.0, False))


def test_the_document_names_the_evidence_and_counts_the_nodes_apart() -> None:
    found = swept("n2").assessed.reports
    whole = document.document(found, started="a", finished="b", partial=False)
    validate(whole, "check-2")
    assert whole["summary"] == {"healthy": 1, "degraded": 0, "unhealthy": 0, "unknown": 0,
                                "healthy_by_agent": 3}
    assert [node["node"] for node in whole["nodes"]] == ["n1", "n2", "n3",
                                                         "n4"] and "by_agent" not in whole["nodes"][1]
    assert whole["nodes"][0] == {
        "node": "n1", "state": "healthy",
        "reason": "healthy, by its agent, at 2026-11-18T11:06:40Z; not visited", "origin": None,
        "service": True,
        "sku": "hgx-h100", "probes": None, "counts": {"pass": 0, "fail": 0, "unknown": 0, "skipped": 0},
        "results": [], "by_agent": {
            "at": 1_795_000_000.25, "target": "node n1:9100", "boot_id": "b", "entry": "e",
            "profile": "timer", "rules": "r", "sku": "hgx-h100",
            "version": "1.0"}}


def test_they_change_no_exit_code() -> None:
    assert (exit_code(swept("n1").assessed.reports) == 0
            and exit_code(swept("n1", Status.FAIL).assessed.reports) == 1)


def test_the_table_lists_them_apart_from_the_healthy() -> None:
    assert page_of(swept("n2").assessed, heading=Heading("here", 1.0, False, 1)).splitlines() == [
        "4 nodes (here), 1 rules, 1.0 s", "", "healthy        1  n2",
        "not visited    3  n[1,3-4]: healthy by their agents' metrics alone"]


def test_a_page_of_repeated_sweeps_does_not_differ_by_whom_the_sample_drew() -> None:
    first, second, sick = (_visible(swept(*words)) for words in (("n1",), ("n2",), ("n2", Status.FAIL)))
    assert first == second != sick
    assert "1 healthy, 3 healthy by agent  (unchanged)" in _unchanged(swept("n1"))
    # Without any that was left out a rule that passes again is news.
    report = swept("n1").assessed.reports[0]
    assert _visible(
        SimpleNamespace(assessed=SimpleNamespace(reports=(report,)))) != first  # type: ignore[arg-type]


def test_the_list_of_nodes_says_which_state_is_by_an_agent() -> None:
    spell = Spell("n1", "healthy", "", None, 0.0, 3600.0, None, 3)
    past = NodeHistory("n1", True, "service")
    by_agent, visited = (row(past, spell, None, 7200.0, 86400.0, by_agent=at) for at in (7100.0, None))
    assert list(lines([by_agent, visited], 7200.0, lambda text, _: text)) == [
        "n1: healthy, by their agents; not visited by the newest sweep", "n1: healthy"]
    (_, line) = lines([by_agent], 7200.0, lambda text, _: text, every=True)
    assert line.endswith("not visited, healthy by its agent at 1970-01-01T01:58Z")
