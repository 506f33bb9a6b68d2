"""What comes and goes in every other sweep, through the store, triage and a file of hosts: isolated while it
is down, held while it is up, given back after the policy's calm hours. Ports, services, whole nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status, state_of
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store.file import Store, opened
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.policyload import load_policy
from inventory.model import Node
from provisioning.actions.hostfile import HostFile
from provisioning.triage import apply as applying

NODES = tuple(Node(f"n{number}") for number in range(1, 41))
MINUTE, HOUR = 60.0, 3600.0
UNREACHED = ""


@cache
def policy() -> TriagePolicy:
    """The packaged one."""
    return load_policy([packaged()], load_ruleset([packaged()]))


class Site:
    """Forty nodes, of which n1 is well or not, a store, and a file of hosts."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.store, self.back = store, HostFile(folder / "bad-hosts")
        self.now = 1_800_000_000.0
        self.plan: TriagePlan

    def sweep(self, *wrong: str, severity: Severity = Severity.CRITICAL, node: str = "n1",
              rules: tuple[str, ...] = ("port-state", "port-rate", "containerd-answers",
                                        "fleet-driver")) -> bool:
        """A sweep, and triage by it; gives whether the node is held."""
        reports = []
        for one in NODES:
            mine = wrong if one.name == node else ()
            if UNREACHED in mine:
                reports.append(NodeReport(one.name, NodeState.UNKNOWN, "connect: refused", (),
                                          True, "connect"))
                continue
            results = tuple(
                Result(rule, rule.replace("-", ".", 1),
                       Status.FAIL if rule in mine else Status.PASS, severity,
                       (Finding("down", "up", "mlx5_0"),) if rule in mine else ()) for rule in rules)
            reports.append(NodeReport(one.name, state_of(results), "", results, True))
        record(self.store,
               SweepRecord(self.now, self.now + 5, False, "test", "digest", ("bringup",)), reports)
        self.triage(self.now + 30)
        self.now += 10 * MINUTE
        return self.held(node)

    def triage(self, now: float) -> None:
        """`muster triage --apply` as the command does it."""
        shown = applying.shown(self.store, self.back, {one.name: one for one in NODES})
        seen = applying.view(self.store, self.back, shown)
        fleet = gather(self.store, NODES, policy(), now, lost=seen.lost, others=seen.others)
        self.plan = make(fleet, policy())
        applying.apply(self.store, self.back, self.plan, "triage", lambda: now, lambda _: None)

    def held(self, node: str = "n1") -> bool:
        """Whether jobs are kept away from it."""
        return self.back.held([node])[node].number is not None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with opened(tmp_path, make=True) as store:
        yield Site(tmp_path, store)


@pytest.mark.parametrize("what", ["port-state", "containerd-answers", UNREACHED])
def test_what_is_down_in_every_other_sweep_is_isolated_the_third_time_while_it_is_down(
    site: Site, what: str,
) -> None:
    assert [site.sweep(*wrong) for wrong in ((), (what,), (), (what,), ())] == [False] * 5
    assert site.sweep(what)
    (verdict,) = site.plan.verdicts
    assert "it came 3 times in 24 h, this one included; it holds until it was away for 12 h" in verdict.why
    for wrong in ((), (what,), (), ()):
        assert site.sweep(*wrong)


def test_what_flapped_is_given_back_after_its_calm_hours_with_clean_looks_and_not_before(site: Site) -> None:
    for wrong in ((), ("port-state",), (), ("port-state",), (), ("port-state",)):
        site.sweep(*wrong)
    assert site.held()
    up = site.now
    while site.now < up + 12 * HOUR:
        assert site.sweep(), (site.now - up) / HOUR
        site.now += 50 * MINUTE
    site.now = up + 12 * HOUR
    assert [site.sweep(), site.held()] == [False, False]


def test_what_returns_after_most_of_the_calm_hours_holds_for_all_of_them_again(site: Site) -> None:
    for wrong in ((), ("port-state",), (), ("port-state",), (), ("port-state",)):
        site.sweep(*wrong)
    site.now += 11 * HOUR
    assert site.sweep() and site.sweep("port-state")
    site.now += 11 * HOUR
    assert site.sweep()
    assert "and is away since" in site.plan.verdicts[0].why


def test_what_comes_and_goes_under_changing_rules_is_one_place_and_what_several_find_at_once_is_one_time(
    site: Site,
) -> None:
    assert not site.sweep("port-state", "port-rate")
    assert not site.sweep()
    assert not site.sweep("port-rate", "port-state")
    assert not site.sweep()
    assert site.sweep("port-rate")


def test_a_warning_that_flaps_isolates_no_node_and_neither_do_two_times(site: Site) -> None:
    for wrong in ((), ("fleet-driver",), (), ("fleet-driver",), (), ("fleet-driver",), ()):
        assert not site.sweep(*wrong, severity=Severity.WARNING)
    for wrong in (("port-state",), (), ("port-state",), ()):
        assert not site.sweep(*wrong)
