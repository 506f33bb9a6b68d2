"""Ports are isolated through UFM and given back: over HTTPS to a stand-in, written first, asked once,
believed only when read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.cli import fabriccheck
from healthcheck.store import portdisables
from healthcheck.store.file import opened
from healthcheck.subnet.cabling import PlannedEnd
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.model import Subnet
from healthcheck.sweep.fabricoutput import saved
from healthcheck.sweep.ufmrest import AUTH, UfmLogin, UfmRest
from healthcheck.sweep.ufmwire import UfmError, place_of
from healthcheck.triage.policy import PortPolicy
from inventory.errors import UsageError
from inventory.transport.httponce import HttpTrust
from provisioning.cli import portsplanned
from provisioning.cli.portsplanned import PortSite, PortsWanted
from provisioning.fabric import disable as acting
from provisioning.fabric.disable import LATE_S, PortOutcome, PortTools, settle
from provisioning.fabric.propose import PortProposal, named, proposals
from provisioning.fabric.route import PortAnswer, PortTarget
from provisioning.fabric.ufm import UfmPorts
from tests.command import muster
from tests.provisioning.fabric.ports import HALF, KeptPorts, killed_at
from tests.testbed import fabricoutputs
from tests.testbed.death import Death
from tests.testbed.ibfabric import two_tiers
from tests.testbed.ufm import PASSWORD, TOKEN, Ufm, serving

PLAN = two_tiers(8, 4, 2, uplinks=2)
ISOLATED = "isolated by the subnet manager"


class Bed(KeptPorts):
    """A store, a stand-in UFM, and a clock that stands still."""

    def __init__(self, folder: Path, ufm: Ufm) -> None:
        super().__init__(folder / "state")
        self.ufm = ufm
        self.port = ufm.name("leaf01", 5)

    def route(self, **more: Any) -> UfmPorts:
        rest = replace(UfmRest(place_of(self.ufm.url), HttpTrust(str(self.ufm.authority)), UfmLogin(TOKEN)),
                       **more)
        return replace(UfmPorts.of(rest), sleep=lambda _: None)

    def tools(self, policy: PortPolicy = HALF, route: UfmPorts | None = None) -> PortTools:
        return PortTools(self.folder, "ops", route or self.route(), policy, self.free, lambda: self.now,
                         lambda _: None)

    @contextmanager
    def free(self, host: str) -> Iterator[None]:
        yield

    def proposal(self, word: str = "leaf01/5") -> PortProposal:
        seen = self.route().look()
        (found,) = proposals(seen, FabricJoin(), {named(word, seen): "bit errors"}, HALF, self.rows())
        return found

    def disable(self, word: str = "leaf01/5", policy: PortPolicy = HALF) -> PortOutcome:
        return acting.disable(self.proposal(word), self.seen(), 16, self.tools(policy))

    def seen(self) -> Subnet:
        (only,) = self.route().look()
        return only

    def target(self) -> PortTarget:
        one = self.proposal()
        assert one.disable.peer is not None
        return PortTarget("", one.disable.end, one.disable.peer)


@pytest.fixture(params=[False, True],
                ids=["shows isolated ports as before", "hides what is behind isolated ports"])
def bed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    with serving(Ufm(PLAN, hides_isolated=request.param), tmp_path) as made:
        (tmp_path / "state").mkdir()
        yield Bed(tmp_path, made)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Bed]:
    with serving(Ufm(PLAN), tmp_path) as made:
        (tmp_path / "state").mkdir()
        yield Bed(tmp_path, made)


def test_a_port_is_isolated_read_back_and_given_back_and_the_ledger_has_both(bed: Bed) -> None:
    done = bed.disable()
    assert done.done is True and done.message.startswith(
        f"{ISOLATED}; an uplink of leaf01: 3 of its 4 working uplinks are left")
    (row,) = bed.rows()
    assert row.stands == "disabled" and row.route == f"UFM at {bed.ufm.url}" and settle(bed.tools()) == []
    back = acting.enable(row, "mended", bed.tools())
    assert back == PortOutcome(row.place, True, "enabled (linkup)") and bed.rows() == ()
    assert bed.ufm.puts() == [{"ports": [bed.port], "ports_policy": "UNHEALTHY", "action": "isolate"},
                              {"ports": [bed.port], "ports_policy": "HEALTHY"}]
    assert [action for action, _ in bed.ledger()] == ["disable port", "enable port"] and all(
        outcome for _, outcome in bed.ledger())


def test_a_subnet_manager_that_takes_its_time_is_waited_for_and_no_longer_than_the_looks_last(
        bed: Bed) -> None:
    bed.ufm.lag = 2
    assert bed.disable().done is True
    bed.ufm.lag = 50
    late = bed.disable("leaf02/5")
    assert late.done is None and late.message.startswith(
        "UNKNOWN: it was asked, and does not show as disabled (linkup)")
    assert len(bed.ufm.puts()) == 2


class Kills:
    """Ends the sender as a request passes: before UFM has it, once it has answered, or at the next
    reading."""

    def __init__(self, moment: str) -> None:
        self.moment, self.done = moment, False

    def put(self, rest: UfmRest, *given: Any) -> Any:
        if self.moment == "before":
            raise Death
        answer = REAL_PUT(rest, *given)
        self.done = True
        if self.moment == "after":
            raise Death
        return answer

    def rows(self, rest: UfmRest, *given: Any) -> str:
        if self.moment == "reading back" and self.done:
            raise Death
        return REAL_ROWS(rest, *given)


REAL_PUT, REAL_ROWS = UfmRest.put, UfmRest.rows


@contextmanager
def killing(moment: str) -> Iterator[None]:
    kills = Kills(moment)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Death):
        patch.setattr(UfmRest, "put", lambda rest, *given: kills.put(rest, *given))
        patch.setattr(UfmRest, "rows", lambda rest, *given: kills.rows(rest, *given))
        yield


@pytest.mark.parametrize(("moment", "asked", "stands"), [("before", 0, "UNKNOWN: asked to disable it"),
                                                         ("after", 1, "disabled"),
                                                         ("reading back", 1, "disabled")])
def test_whoever_is_killed_leaves_what_the_next_one_finds_out(plain: Bed, moment: str, asked: int,
                                                              stands: str) -> None:
    proposal, seen = plain.proposal(), plain.seen()
    with killing(moment):
        acting.disable(proposal, seen, 16, plain.tools())
    assert len(plain.ufm.puts()) == asked and len(plain.rows()) == 1
    settle(plain.tools())
    assert plain.rows()[0].stands == stands and len(plain.ufm.puts()) == asked
    plain.now += LATE_S
    settle(plain.tools())
    assert len(plain.rows()) == asked == len(plain.ufm.unhealthy) and len(plain.ufm.puts()) == asked


@pytest.mark.parametrize("moment", ["before", "after", "reading back"])
def test_killed_while_it_is_given_back_the_port_stays_ours_until_it_is_read_back(plain: Bed,
                                                                                 moment: str) -> None:
    plain.disable()
    (row,) = plain.rows()
    plain.ufm.seen.clear()
    with killing(moment):
        acting.enable(row, "mended", plain.tools())
    (told,) = settle(plain.tools())
    if moment == "before":
        assert "disabled still" in told.message and acting.enable(plain.rows()[0], "mended",
                                                                  plain.tools()).done is True
    assert plain.rows() == () and plain.ufm.unhealthy == {} and len(plain.ufm.puts()) == 1


@pytest.mark.parametrize("step", ["undoing", "over"])
def test_killed_at_a_step_of_the_record_of_giving_back(plain: Bed, step: str) -> None:
    plain.disable()
    (row,) = plain.rows()
    plain.ufm.seen.clear()
    with killed_at(step):
        acting.enable(row, "mended", plain.tools())
    settle(plain.tools())
    if step == "undoing":
        assert [one.stands for one in plain.rows()] == ["disabled"] and plain.ufm.puts() == []
    else:
        assert plain.rows() == () and plain.ufm.unhealthy == {} and len(plain.ufm.puts()) == 1


def test_what_a_person_changes_in_between_is_theirs(plain: Bed) -> None:
    plain.disable()
    plain.ufm.unhealthy.clear()
    (told,) = settle(plain.tools())
    assert told.message == "somebody else enabled it (linkup)" and plain.rows() == ()
    proposal, seen = plain.proposal(), plain.seen()
    plain.ufm.unhealthy[plain.ufm.ends[plain.port]] = ["MANUAL"]        # the same link, at its other end
    theirs = acting.disable(proposal, seen, 16, plain.tools())
    assert theirs.message == "not disabled: it is disabled already, and not by this" and plain.rows() == ()
    assert plain.proposal().disable.refused == "it is disabled already, and not by this" and len(
        plain.ufm.puts()) == 1


def test_a_cable_that_was_moved_since_the_look_is_not_touched(plain: Bed) -> None:
    proposal, seen = plain.proposal(), plain.seen()
    first, second = plain.port, plain.ufm.name("leaf01", 6)
    ends = plain.ufm.ends
    one, other = ends[first], ends[second]
    ends |= {first: other, other: first, second: one, one: second}
    done = acting.disable(proposal, seen, 16, plain.tools())
    assert done.done is False and "its cable leads to 0x" in done.message and plain.ufm.puts() == []


def test_links_that_are_left_out_or_listed_as_unhealthy_stand_in_for_no_other(plain: Bed) -> None:
    # whether it is left out, UFM does not say
    plain.ufm.unhealthy[plain.ufm.name("leaf01", 6)] = ["FLAPPING"]
    assert plain.disable().done is True
    refused = plain.proposal("leaf01/7").disable.refused
    assert refused == "leaf01 would keep 1 uplinks, and the policy asks for 2"
    assert plain.proposal("leaf01/1").disable.refused.startswith("it is the last link of gpu001 mlx5_0")


def test_the_bound_is_one_for_all_means(plain: Bed) -> None:
    one = replace(HALF, number=1)
    assert plain.disable(policy=one).done is True
    assert plain.disable("leaf02/5", one).message == ("not disabled: 1 ports were disabled lately, and the "
                                                      "policy allows 1")
    assert len(plain.ufm.puts()) == 1


class Node:
    """Another means: it sees the cable as lit, as infiniband-diags does."""

    name = "ibportstate on gpu001"

    def __init__(self, bed: Bed) -> None:
        self.subnet = replace(bed.seen(), unhealthy=None)

    def look(self) -> tuple[Subnet, ...]:
        return (self.subnet,)

    def set(self, target: PortTarget, *, enable: bool, seen: Subnet) -> PortAnswer:
        raise AssertionError("it was not to be asked")


def test_what_one_means_has_set_another_neither_judges_nor_undoes_and_its_link_counts_as_lost(
        plain: Bed) -> None:
    plain.disable()
    node = replace(plain.tools(), route=Node(plain))
    assert settle(node) == [] and plain.rows()[0].stands == "disabled"
    refused = acting.enable(plain.rows()[0], "mended", node)
    assert refused.done is False and f"it was disabled by UFM at {plain.ufm.url}" in refused.message
    (proposal,) = proposals(node.route.look(), FabricJoin(), {named("leaf01/6", node.route.look()): "x"},
                             HALF, plain.rows())
    assert "2 of its 3 working uplinks are left" in proposal.disable.lost
    with opened(plain.folder) as store:
        portdisables.undoing(store, plain.rows()[0], "x", "ops", plain.now)
    (told,) = settle(node)
    assert told.done is None and "ask by the same means" in told.message


@pytest.mark.parametrize(("fault", "done", "said"),
                         [(400, False, "status 400"), (401, False, "it refuses the login (401)"),
                          (403, False, "this login may not use"), (404, False, "(404)"),
                          (503, None, "status 503"),
                          ("drop", None, "it closed the connection before it had answered")])
def test_what_ufm_refuses_is_not_done_and_what_it_leaves_open_is_unknown(plain: Bed, fault: Any,
                                                                         done: bool | None,
                                                                         said: str) -> None:
    target, seen = plain.target(), plain.seen()
    plain.ufm.faults = lambda method, path: fault if method == "PUT" else None
    answer = plain.route().set(target, enable=False, seen=seen)
    assert answer.done is done and said in answer.message and len(plain.ufm.puts()) == 1
    outcome = acting.disable(plain.proposal(), seen, 16, plain.tools())
    assert outcome.done is done and len(plain.rows()) == (done is None)


def test_where_ufm_cannot_be_read_before_the_change_nothing_is_asked(plain: Bed) -> None:
    target, seen = plain.target(), plain.seen()
    plain.ufm.faults = lambda method, path: 404 if path == "/app/unhealthy_ports" else None
    answer = plain.route().set(target, enable=False, seen=seen)
    assert (answer.done is False and "it has no /ufmRestV3/app/unhealthy_ports (404)" in answer.message
            and plain.ufm.puts(
            ) == [])
    with pytest.raises(UfmError, match="404"):
        plain.route().look()


@pytest.mark.parametrize(("statuses", "seconds", "said"), [
    (["Running", "Running", "Completed"], 60.0, ""),
    (["Completed With Errors"], 60.0, "job 7 of UFM: Completed With Errors: of one port"),
    (["Aborted"], 60.0, "job 7 of UFM: Aborted"),
    (["Running"], 2.2, "job 7 of UFM has not ended within 2.2 s: Running")])
def test_a_job_is_followed_to_its_end_and_only_reading_back_says_what_came_of_it(
    plain: Bed, statuses: list[str], seconds: float, said: str,
) -> None:
    target, seen = plain.target(), plain.seen()
    plain.ufm.job = statuses
    answer = replace(plain.route(), job_s=seconds).set(target, enable=False, seen=seen)
    assert answer.done is None and answer.message.startswith(said) and bool(answer.message) == bool(said)


def test_a_job_of_which_nothing_can_be_read_is_said(plain: Bed) -> None:
    target, seen = plain.target(), plain.seen()
    plain.ufm.job = ["Running"]
    plain.ufm.faults = lambda method, path: b"<html>" if path.startswith("/jobs") else None
    answer = plain.route().set(target, enable=False, seen=seen)
    assert (answer.done is None and "job 7 of UFM, last seen: no status" in answer.message
            and "web page" in answer.message)


def test_links_that_a_node_finds_to_fail_are_isolated_through_ufm(plain: Bed,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, errors in (("before", {}), ("after", {(PlannedEnd("leaf01", "5"), "SymbolErrorCounter"): 5000,
                                                      (PlannedEnd("gpu001",
                                                                  "mlx5_0"), "SymbolErrorCounter"): 5000})):
        fabricoutputs.write(PLAN, plain.folder.parent / folder, errors)
        (plain.folder.parent / folder / "snapshot.json").write_text(
            json.dumps({"schema": "muster.fabric.snapshot/1", "time": 1060.0 if errors else 1000.0}))
    # as the node's tools print it
    monkeypatch.setattr(portsplanned, "asked", lambda *given: saved(plain.folder.parent / "after"))
    monkeypatch.setattr(fabriccheck, "kept",
                        lambda *given: fabriccheck.of_folder(plain.folder.parent / "before"))
    wanted = PortsWanted((), True, "gpu001", (), None, None, None, None)
    found = portsplanned.planned(wanted, PortSite(None, None, plain.folder, HALF), plain.route())
    assert sorted((one.place, bool(one.disable.refused)) for one in found.proposals) == [
        ("leaf01 port 1 to gpu001 mlx5_0", True), ("leaf01 port 5 to spine01 port 1", False)]
    assert found.subnets == plain.route().look() and found.room == 2


def ports(bed: Bed, *words: str) -> tuple[int, str, str]:
    done = muster("fabric", *words, "--ufm", bed.ufm.url, "--ufm-tls", f"sha256:{bed.ufm.fingerprint}",
                  home=bed.folder.parent, **{AUTH: TOKEN})
    return done.returncode, done.stdout, done.stderr


def test_the_commands_disable_list_and_enable_through_ufm(plain: Bed) -> None:
    words = ("disable", "leaf01/5", "--reason", "bit errors")
    code, shown, _ = ports(plain, *words)
    assert code == 0 and "would be disabled" in shown and "--apply" in shown and plain.ufm.puts() == []
    code, shown, problem = ports(plain, *words, "--apply")
    assert code == 0 and ISOLATED in shown, shown + problem
    listed = muster("fabric", "disable", home=plain.folder.parent)
    assert (f"{plain.port.replace('_', '/')}  leaf01 port 5 to spine01 port 1: "
            f"disabled since ") in listed.stdout
    refused = muster("fabric", "enable", "all", "--by", "gpu001", "--apply", home=plain.folder.parent,
                     timeout=90)
    assert refused.returncode == 1 and "has to be enabled by the same means" in refused.stdout
    code, shown, _ = ports(plain, "enable", "all", "--apply")
    assert code == 0 and "enabled (linkup)" in shown and plain.ufm.unhealthy == {}
    for place in plain.folder.rglob("*"):
        assert not place.is_file() or not any(secret.encode() in place.read_bytes()
                                              for secret in (TOKEN, PASSWORD))


@pytest.mark.parametrize(
    ("words", "said"), [(("disable", "leaf01/5", "--ufm", "https://h", "--by", "gpu001"),
                         "give --ufm URL alone for ports that are named"),
                        (("disable", "--proposed", "--ufm", "https://h"),
                         "UFM shows no counters, by which ports are proposed: give --by NODE beside --ufm"),
                        (("disable", "--ufm", "https://h"), "give PORT or --proposed"),
                        (("disable", "leaf01/5", "--ufm", "https://h", "--apply"), "--apply needs --reason"),
                        (("enable", "all", "--ufm", "https://h", "--by", "gpu001", "--apply"),
                         "--apply needs --by NODE or --ufm URL")])
def test_what_does_not_go_together_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("fabric", *words, home=tmp_path, **{AUTH: TOKEN})
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_a_port_of_a_subnet_whose_ufm_was_not_named_is_not_set(plain: Bed) -> None:
    with pytest.raises(UsageError, match="no such port was seen there"):
        named("leaf01/99", plain.route().look())
    answer = plain.route().set(replace(plain.target(), plane="another"), enable=False, seen=plain.seen())
    assert answer == PortAnswer(False, "its subnet's UFM was not named")
