"""Parts that go to the vendor and come back: each step once, and no old board for a new one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from healthcheck.cli.main import root
from healthcheck.config.rulesfolder import packaged
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Owner, Result, Severity, Status
from healthcheck.replay.rebuild import Rebuilt
from healthcheck.replay.record import read
from healthcheck.store.cordons import CordonState, mean, settle
from healthcheck.store.file import Store, opened
from healthcheck.store.history import ComponentLocation, whereabouts
from healthcheck.store.ledger import lines
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import RmaState, alarms, outcome, rmas, unfinished
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.gather import gather
from healthcheck.triage.past import FleetHistory
from healthcheck.triage.plan import make
from healthcheck.triage.policyload import load_policy
from inventory.errors import MusterError, UsageError
from inventory.inventoryfile import InventoryFile
from inventory.load import load_inventory
from inventory.model import LifecycleState
from provisioning.cli.rma import rma as command
from provisioning.remediate.rma import ReturnedPart, chosen, may_return, opening, part_at, returning, shipping
from tests.packagedrules import RULES
from tests.testbed.death import Death, Mortal
from tests.testbed.marks import muster, plain
from tests.testbed.memory import in_memory
from tests.tries import tries

HOUR = 3600.0
INVENTORY = "version: 1\nnodes:\n  gpu[001-003]: {rack: r01}   # by the door\n"
GPU3 = "0000:9a:00.0"


def sweep(
    store: Store, ago: float, gpu3: str, chassis: str = "C1", fails: bool = False, node: str = "gpu001",
) -> None:
    """One stored look at a node of four GPUs, of which the last has this serial number."""
    slots = ("0000:1a:00.0", "0000:3b:00.0", "0000:5d:00.0", GPU3)
    serials = [f"{node}-{number}" for number in range(3)] + [gpu3]
    parts = (*(Component("gpu", slot, serial, f"GPU {n}")
               for n, (slot, serial) in enumerate(zip(slots, serials, strict=True)) if serial),
             Component("chassis", "chassis", chassis, "chassis"))
    findings = (Finding("failed", "none", "GPU 3"),) if fails else ()
    result = Result("gpu-row-remap-failed", "x", Status.FAIL if fails else Status.PASS, Severity.CRITICAL,
                    findings, "", None, "Send it back.", Owner.VENDOR if fails else None)
    now = time.time() - ago
    record(store, SweepRecord(now, now + 5, False, "test", "digest"),
           [NodeReport(node, NodeState.UNHEALTHY if fails else NodeState.HEALTHY, "", (result,))],
           {node: NodeReadings(parts, (), frozenset({"gpu", "chassis"}), "boot")})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A head with an inventory and a store: GPU 3 of gpu001 is worn out, and the node is cordoned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MUSTER_INVENTORY", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    with opened(tmp_path / "state", make=True) as store:
        sweep(store, 3 * HOUR, "OLD")
        sweep(store, 2 * HOUR, "OLD", fails=True)
        held = mean(store, "gpu001", "hostfile", "worn", "us", time.time() - HOUR)
        assert held is not None
        settle(store, held, CordonState.HELD, "cordoned", time.time() - HOUR)
    return tmp_path


def run(home: Path, *words: str, code: int = 0) -> str:
    """The command in this process, as `main` runs it; what it prints, and the error as `main` prints it."""
    done = CliRunner().invoke(root, ["rma", *words])
    assert done.exception is None or isinstance(done.exception, (MusterError, SystemExit)), done.exc_info
    error = f"muster: {done.exception}\n" if isinstance(done.exception, MusterError) else ""
    assert ((done.exception.exit_code if isinstance(done.exception, MusterError) else done.exit_code)
            == code), done.output + error
    return plain(done.stdout + done.stderr + error)


def lifecycle(home: Path, node: str = "gpu001") -> LifecycleState:
    return load_inventory(home / "muster.yaml").nodes[node].lifecycle.state


def look(home: Path, *words: str, **more: str) -> None:
    with opened(home / "state") as store:
        sweep(store, -1, *words, **more)  # type: ignore[arg-type]


OPEN = ("open", "gpu001", "--gpu", "3", "--reason", "rows are used up", "--reference", "00412345")


def returned(home: Path, *words: str) -> None:
    """RMA 1: the worn GPU of gpu001 went out, and came back as these words say."""
    run(home, *OPEN, "--yes")
    run(home, "ship", "1")
    run(home, "return", "1", *words, "--yes")


def test_a_gpu_goes_out_and_another_comes_back(home: Path) -> None:
    said = run(home, *OPEN, "--yes")
    assert f"RMA 1 is open: gpu OLD at {GPU3} of gpu001; muster#1 (hostfile) keeps jobs away\n" in said
    assert (f"# gpu001: RMA 1 (00412345), GPU 3 at {GPU3}, serial OLD\n" in said
            and "To the vendor. Please replace it" in said)
    assert "gpu-row-remap-failed: `GPU 3` showed `failed`, expected `none`" in said and "- Rack: r01" in said
    held = load_inventory(home / "muster.yaml").nodes["gpu001"].lifecycle
    assert (held.state, held.owner, held.until is not None) == (LifecycleState.RMA, "vendor", True)
    assert "by the door" in (home / "muster.yaml").read_text()
    # an RMA is paper, and repairs nothing
    assert "cordon by us (worn): cordoned\n" in said and "rma open" not in said
    assert run(home, "ship", "gpu001") == f"RMA 1 is shipped: gpu OLD at {GPU3} of gpu001\n"
    said = run(home, "return", "gpu001", "--serial", "NEW", "--yes")
    assert (f"RMA 1 is returned (exchanged NEW): gpu OLD at {GPU3} of gpu001\n" in said
            and "expected at 0000:9a:00.0: NEW;" in said)
    assert lifecycle(home) is LifecycleState.BRINGUP and "enroll" not in said
    look(home, "NEW")
    assert run(home, "list") == "nothing is away\n"
    with opened(home / "state") as store:
        on_result = [
            (line.action, line.outcome) for line in lines(store, ["gpu001"]) if line.action != "cordon"]
    assert [action for action, _ in on_result] == ["rma open", "rma ship", "rma return"]
    assert on_result[0][1] is not None and plain(
        on_result[0][1]).startswith("open, muster#1 (hostfile) keeps jobs away; lifecycle rma, owner vendor")
    assert on_result[2][1] == "returned (exchanged NEW); lifecycle bringup, written to muster.yaml"


def test_the_same_board_that_was_to_be_exchanged_is_reported_loudly_until_another_rma(home: Path) -> None:
    run(home, *OPEN, "--yes")
    run(home, "ship", "1")
    assert "OLD is the serial number" in run(
        home, "return", "1", "--serial", "OLD", "--yes", code=2).replace("'", "")
    run(home, "return", "1", "--yes")
    assert run(home, "list") == "nothing is away\n"
    look(home, "OLD")
    on_result = run(home, "list")
    assert "the SAME gpu came back: serial OLD, and it was said to be exchanged" in on_result
    document = json.loads(run(home, "list", "--format", "json"))
    assert document["schema"] == "muster.rmas/1" and document["rmas"][0]["alarm"].startswith("the SAME gpu")
    run(home, *OPEN, "--yes")
    assert "SAME" not in run(home, "list")


def test_a_repaired_board_may_be_the_same_and_must_be(home: Path) -> None:
    returned(home, "--same")
    look(home, "OLD")
    assert run(home, "list") == "nothing is away\n"
    look(home, "STRANGE")
    with opened(home / "state") as store:       # the old one was seen since, so that it did come back
        assert alarms(store, rmas(store)) == {}


def test_another_board_than_was_said_is_reported(home: Path) -> None:
    returned(home, "--serial", "NEW")
    look(home, "STRANGE")
    assert "ANOTHER gpu came back: serial STRANGE, and NEW was said to come" in run(home, "list")


def test_a_whole_node_comes_back_with_a_new_chassis_and_its_host_keys_are_not_believed(home: Path) -> None:
    said = run(home, "open", "gpu001", "--chassis", "--reason", "smoke", "--yes")
    assert "the whole node (chassis C1)" in said
    run(home, "ship", "gpu001")
    said = run(home, "return", "gpu001", "--serial", "C9", "--yes")
    assert "expected at the chassis: C9" in said and "muster inventory enroll gpu001 --replace gpu001" in said
    look(home, "OLD", chassis="C1")
    assert "the SAME chassis came back: serial C1" in run(home, "list")


def test_a_node_that_may_get_jobs_is_refused_unless_a_person_says_who_keeps_them_away(home: Path) -> None:
    words = ("open", "gpu002", "--slot", "PSU 2", "--serial", "P7", "--reason", "hums", "--yes")
    said = run(home, *words, code=2)
    assert (said.startswith("muster: no cordon of ours keeps jobs away from gpu002")
            and "muster cordon gpu002 --reason 'RMA'" in said)
    assert lifecycle(home, "gpu002") is LifecycleState.SERVICE and run(home, "list") == "nothing is away\n"
    assert "jobs are kept away by the night shift" in run(home, *words, "--held-by", "the night shift")
    assert lifecycle(home, "gpu002") is LifecycleState.RMA


def test_a_cordon_of_which_no_one_knows_whether_it_was_done_keeps_no_jobs_away(home: Path) -> None:
    with opened(home / "state") as store:
        assert mean(store, "gpu002", "slurm", "x", "us", time.time()) is not None
    assert run(home, "open", "gpu002", "--chassis", "--reason", "x", "--yes", code=2).startswith(
        "muster: no cordon of ours keeps jobs away")


def test_steps_out_of_order_are_one_clear_error(home: Path) -> None:
    assert run(
        home, "ship", "gpu001", code=2) == "muster: there is no RMA of 'gpu001'; see: muster rma list --all\n"
    assert run(home, "return", "7", code=2) == "muster: there is no RMA 7; see: muster rma list --all\n"
    run(home, *OPEN, "--yes")
    assert (run(home, "return", "1", "--yes", code=2)
            == "muster: RMA 1 of gpu001 is open, so there is nothing to return; next is: muster rma "
               "ship 1, or "
               "where it was exchanged on site: muster rma exchange 1 --serial NEW\n")
    run(home, "ship", "1")
    run(home, "return", "1", "--yes")
    assert (run(home, "ship", "1", code=2) == "muster: RMA 1 of gpu001 is returned, so there is nothing to "
                                              "ship; for another: muster rma open gpu001\n")


def test_every_step_may_be_repeated(home: Path) -> None:
    run(home, *OPEN, "--yes")
    before = (home / "muster.yaml").read_text()
    assert "# gpu001: RMA 1" in run(home, *OPEN)
    run(home, "ship", "1")
    assert "RMA 1 is shipped already" in run(home, "ship", "gpu001")
    assert (home / "muster.yaml").read_text() == before
    run(home, "return", "1", "--yes")
    muster("inventory", "lifecycle", "gpu001", "service", "--yes", home=home)
    assert "RMA 1 is returned already (exchanged, " in run(home, "return", "gpu001")
    assert lifecycle(home) is LifecycleState.SERVICE


def test_a_node_is_out_until_the_last_of_its_parts_is_back(home: Path) -> None:
    run(home, *OPEN, "--yes")
    run(home, "open", "gpu001", "--gpu", "1", "--reason", "that one too", "--yes")
    assert "gpu001 has 2 RMAs: 1 (gpu OLD" in run(home, "ship", "gpu001", code=2)
    for number in ("1", "2"):
        run(home, "ship", number)
    assert "gpu001 stays as it is in the inventory: RMA 2 of it is not back" in run(
        home, "return", "1", "--yes")
    assert lifecycle(home) is LifecycleState.RMA
    run(home, "return", "gpu001", "--yes")
    assert lifecycle(home) is LifecycleState.BRINGUP


def test_what_comes_back_for_a_node_that_is_gone_from_the_inventory_is_closed_all_the_same(
    home: Path,
) -> None:
    run(home, *OPEN, "--yes")
    run(home, "ship", "1")
    (home / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[002-003]:\n")
    assert "RMA 1 is returned (exchanged)" in run(
        home, "return", "1") and run(home, "list") == "nothing is away\n"
    with opened(home / "state") as store:
        assert lines(store)[-1].outcome == "returned (exchanged); muster.yaml does not name the node any more"


@pytest.mark.parametrize("words", [("--dry-run",), ()])
def test_without_a_yes_nothing_is_done(home: Path, words: tuple[str, ...]) -> None:
    said = run(home, *OPEN, *words, code=0 if words else 2)
    assert "+  gpu001: {lifecycle: {state: rma, owner: vendor, until: " in said
    assert (f"\nto be opened: the RMA of gpu OLD at {GPU3} of gpu001; muster#1 (hostfile) keeps jobs away\n"
            in said)
    assert lifecycle(home) is LifecycleState.SERVICE and run(home, "list") == "nothing is away\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [(("gpu001", "--reason", "x"),
      "name the part of gpu001 that goes back: --chassis, --gpu N or --slot SLOT; the store knows "
      "0000:1a:00.0 (gpu gpu001-0)"),
     (("gpu001", "--gpu", "4", "--reason", "x"),
      "the store knows 4 GPUs of gpu001, so there is no GPU 4: give its --slot and --serial"),
     (("gpu001", "--slot", "fan 3", "--reason", "x"),
      "the store knows nothing at 'fan 3' of gpu001, but 0000:1a:00.0 (gpu gpu001-0)"),
     (("gpu001", "--gpu", "1", "--chassis", "--reason", "x"),
      "--slot, --gpu and --chassis exclude each other: open one return per part"),
     (("gpu001", "--gpu", "1", "--reason", " "), "--reason is empty"),
     (("gpu001", "--gpu", "1", "--reason", "x", "--evidence", "none"),
      "none: there is no such file or folder (named by --evidence)"),
     (("gpu009", "--gpu", "1", "--reason", "x"), "muster.yaml has no node gpu009; did you mean gpu"),
     (("gpu[001-002]", "--gpu", "1", "--reason", "x"), "gpu[001-002] names 2 nodes, expected one")])
def test_what_is_not_clear_is_asked_for_before_anything_is_done(
    home: Path, words: tuple[str, ...], said: str,
) -> None:
    assert run(home, "open", *words, "--yes", code=2).startswith(f"muster: {said}")
    assert (home / "muster.yaml").read_text() == INVENTORY


def test_a_number_is_not_believed_while_a_gpu_is_lost() -> None:
    seats = [ComponentLocation("gpu", f"S{n}", "gpu001", f"0000:{n}a:00.0", 0, 10, 9 if n == 1 else None)
             for n in range(4)]
    with pytest.raises(
        UsageError,
        match=r"GPU 2 of gpu001 is not certain: 0000:1a:00.0 is not seen any more, and numbers shift"):
        part_at("gpu001", seats, (), None, 2, False, None)
    assert part_at("gpu001", seats, (), "0000:1a:00.0", None, False, None) == ReturnedPart(
        "gpu001", "0000:1a:00.0", "gpu", "S1")


def test_evidence_that_is_as_young_as_the_fault_goes_along(home: Path) -> None:
    for ago in (24, 1):
        folder = home / "state" / "evidence" / "gpu001" / time.strftime(
            "%Y%m%dT%H%M%SZ", time.gmtime(time.time() - ago * HOUR))
        folder.mkdir(parents=True)
        if ago > 1:
            (folder / "manifest.json").write_text("{}")
    assert "Evidence: none since this began" in run(home, *OPEN, "--yes")
    (folder / "manifest.json").write_text("{}")
    assert f"Evidence: {folder}" not in run(home, *OPEN)       # what an RMA was opened with stays
    muster("cordon", "gpu002", "--reason", "x", "--hostfile", "bad", home=home)
    assert "Evidence: `/" in run(
        home, "open", "gpu002", "--chassis", "--reason", "x", "--evidence", "muster.yaml", "--yes")


def known(home: Path) -> FleetHistory:
    """The fleet as triage knows it."""
    with opened(home / "state") as store:
        return gather(store, load_inventory(home / "muster.yaml"), load_policy([packaged()], RULES),
                      time.time() + HOUR)


def away(home: Path) -> dict[str, str]:
    """By node what triage knows of returns that keep jobs from it, and a replay of this hour, too."""
    policy = load_policy([packaged()], RULES)
    with opened(home / "state") as store:
        rebuilt = Rebuilt(read(store, policy.requalify.profile, 0), policy)
    now = time.time() + HOUR
    played = {node.name: rebuilt.past(node, now) for node in load_inventory(home / "muster.yaml")}
    found = {past.node: past for past in known(home).nodes}
    assert {name: (past.away, {done.slot for done in past.repaired}) for name, past in played.items()} == {
        name: (past.away, {done.slot for done in past.repaired}) for name, past in found.items()}
    return {name: past.away for name, past in found.items() if past.away}


def test_an_old_board_accuses_the_node_where_it_sits_now_and_no_one_once_it_has_left(home: Path) -> None:
    returned(home)
    look(home, "NEW")
    assert away(home) == {}
    look(home, "OLD", node="gpu002", chassis="C2")
    said = (f"RMA 1: the SAME gpu came back in gpu002, slot {GPU3}: serial OLD, and it was said to be "
            f"exchanged")
    assert away(home) == {"gpu002": f"{said}; see: muster rma list"}
    listed = run(home, "list")
    assert said.removeprefix("RMA 1: ") in listed
    assert (f"it ends when that part leaves gpu002; else send it back: muster rma open gpu002 --slot {GPU3} "
            "--reason 'RMA 1 came back wrong', or keep it: muster rma close 1 --reason WHY\n") in listed
    assert json.loads(run(home, "list", "--format", "json"))["rmas"][0]["alarm_node"] == "gpu002"
    look(home, "THIRD", node="gpu002", chassis="C2")
    assert away(home) == {} and run(home, "list") == "nothing is away\n"
    look(home, "OLD", node="gpu003", chassis="C3")
    assert list(away(home)) == ["gpu003"]
    look(home, "OLD")                       # and back into the node that sent it out
    assert list(away(home)) == ["gpu001"] and "the SAME gpu came back: serial OLD" in run(home, "list")


def test_a_later_return_of_the_slot_hides_no_board_that_is_elsewhere(home: Path) -> None:
    returned(home)
    look(home, "NEW")
    run(home, "open", "gpu001", "--gpu", "3", "--reason", "this one too", "--yes")
    run(home, "ship", "2")
    run(home, "return", "2", "--serial", "NEWER", "--yes")
    look(home, "NEWER")
    look(home, "OLD", node="gpu002", chassis="C2")
    assert list(away(home)) == ["gpu002"]
    look(home, "NEW", node="gpu003", chassis="C3")
    assert sorted(away(home)) == ["gpu002", "gpu003"]


def test_another_return_of_the_board_ends_its_alarm_and_so_does_a_reason_to_keep_it(home: Path) -> None:
    returned(home)
    look(home, "OLD", node="gpu002", chassis="C2")
    run(home, "close", "gpu001", "--reason", "the vendor repaired it and kept the number", "--yes")
    assert away(home) == {} and run(home, "list") == "nothing is away\n"
    assert "closed since" in run(home, "list", "--all") and "kept the number" in run(home, "list", "--all")
    assert "RMA 1 is closed already" in run(home, "close", "1", "--reason", "again")
    with opened(home / "state") as store:
        assert lines(store)[-1].action == "rma close" and "kept the number" in lines(store)[-1].why


def test_a_board_that_was_announced_as_the_replacement_accuses_no_one(home: Path) -> None:
    returned(home)
    look(home, "NEW")
    run(home, "open", "gpu002", "--slot", GPU3, "--serial", "gpu002-3", "--reason", "x", "--held-by", "us",
        "--yes")
    run(home, "ship", "2")
    said = run(home, "return", "2", "--serial", "old", "--yes")
    assert "note: 'old' is what went out as RMA 1 of gpu001: rows are used up\n" in said
    look(home, "OLD", node="gpu002", chassis="C2")
    assert away(home) == {} and run(home, "list") == "nothing is away\n"


def test_numbers_that_differ_in_the_case_of_letters_are_one(home: Path) -> None:
    returned(home, "--serial", "new-7")
    look(home, "NEW-7")
    assert away(home) == {} and run(home, "list") == "nothing is away\n"


def test_an_announced_board_in_another_slot_of_the_node_did_come(home: Path) -> None:
    returned(home, "--serial", "gpu001-9")
    with opened(home / "state") as store:
        now = time.time() + 1
        parts = [Component("gpu", slot, serial, f"GPU {n}") for n, (slot, serial) in enumerate(
            (("0000:1a:00.0", "gpu001-9"), ("0000:3b:00.0", "gpu001-0"), ("0000:5d:00.0", "gpu001-1"),
             (GPU3, "gpu001-2")))]
        record(store, SweepRecord(now, now + 5, False, "test", "digest"), [],
               {"gpu001": NodeReadings(tuple(parts), (), frozenset({"gpu"}), "boot")})
    assert run(home, "list") == "nothing is away\n"


def test_a_part_is_exchanged_on_site_and_nothing_is_shipped(home: Path) -> None:
    words = ("exchange", "gpu001", "--gpu", "3", "--serial", "NEW", "--reason", "fell off", "--yes")
    said = run(home, *words)
    assert f"RMA 1 is returned (exchanged NEW, on site): gpu OLD at {GPU3} of gpu001\n" in said
    assert "expected at 0000:9a:00.0: NEW;" in said and lifecycle(home) is LifecycleState.BRINGUP
    assert "RMA 1 is exchanged already (exchanged NEW" in run(home, *words)
    assert "RMA 1 is exchanged already (exchanged NEW" in run(home, "exchange", "1", "--serial", "new")
    look(home, "OLD")
    assert "the SAME gpu came back: serial OLD" in run(home, "list")
    look(home, "NEW")
    assert run(home, "list") == "nothing is away\n"
    with opened(home / "state") as store:
        (one,) = rmas(store)
        assert (one.shipped, one.new, one.away) == (None, "NEW", False)
        assert str(lines(store)[-1].outcome).startswith(
            "exchanged on site (exchanged NEW); lifecycle bringup")


def test_an_exchange_that_a_sweep_met_before_anyone_wrote_it_down_takes_out_what_sat_there_before(
    home: Path,
) -> None:
    look(home, "NEW")
    said = run(home, "exchange", "gpu001", "--gpu", "3", "--serial", "new", "--reason", "fell off", "--yes")
    assert f"gpu OLD at {GPU3} of gpu001" in said
    assert run(home, "list") == "nothing is away\n" and away(home) == {}


def test_an_open_return_may_end_by_an_exchange_on_site_and_a_shipped_one_may_not(home: Path) -> None:
    run(home, *OPEN, "--yes")
    assert "nothing was exchanged" in run(home, "exchange", "1", "--serial", "OLD", "--yes", code=2)
    run(home, "exchange", "gpu001", "--serial", "NEW", "--yes")
    assert lifecycle(home) is LifecycleState.BRINGUP and run(home, "list") == "nothing is away\n"
    look(home, "NEW")
    run(home, "open", "gpu001", "--gpu", "3", "--reason", "again", "--yes")
    run(home, "ship", "2")
    assert run(home, "exchange", "2", "--serial", "X", "--yes", code=2) == (
        "muster: RMA 2 of gpu001 is shipped, so there is nothing to exchange on site; next is: muster rma "
        "return 2\n")


def test_an_exchange_needs_a_reason_and_a_node_without_jobs(home: Path) -> None:
    assert "--reason is empty" in run(home, "exchange", "gpu001", "--gpu", "3", "--serial", "N", code=2)
    words = ("exchange", "gpu002", "--slot", "PSU 2", "--old", "P7", "--serial", "P9", "--reason", "hums")
    assert "no cordon of ours keeps jobs away from gpu002" in run(home, *words, "--yes", code=2)
    run(home, *words, "--held-by", "it is off", "--yes")
    with opened(home / "state") as store:
        trail = [(seat.kind, seat.serial, seat.node, seat.slot, seat.ended is None)
                 for word in ("p7", "P9") for seat in whereabouts(store, word)]
    assert trail == [("psu", "P7", "gpu002", "PSU 2", False), ("psu", "P9", "gpu002", "PSU 2", True)]


def test_a_return_that_never_went_or_never_comes_back_is_closed_and_repaired_nothing(home: Path) -> None:
    run(home, *OPEN, "--yes")
    assert "RMA 1 is closed (reseated)" in run(home, "close", "1", "--reason", "reseated", "--yes")
    assert lifecycle(home) is LifecycleState.BRINGUP and run(home, "list") == "nothing is away\n"
    with opened(home / "state") as store:
        (one,) = rmas(store)
    assert (one.state, one.away, one.repaired) == (RmaState.CLOSED, False, False)
    run(home, *OPEN, "--yes")
    run(home, "ship", "2")
    run(home, "close", "gpu001", "--reason", "lost in the post", "--yes")
    assert away(home) == {} and lifecycle(home) is LifecycleState.BRINGUP
    assert run(home, "return", "2", "--yes", code=2).startswith(
        "muster: RMA 2 of gpu001 is closed, so there is nothing to return")
    look(home, "OLD")
    assert run(home, "list") == "nothing is away\n"


def test_what_came_back_in_order_is_not_closed(home: Path) -> None:
    returned(home)
    look(home, "NEW")
    assert run(home, "close", "1", "--reason", "x", "--yes", code=2) == (
        "muster: RMA 1 of gpu001 came back in order: there is nothing to close; see: muster rma list --all\n")


def test_a_part_that_sits_in_another_node_is_not_taken_for_one_of_this(home: Path) -> None:
    look(home, "MOVED", node="gpu002", chassis="C2")
    assert run(home, "open", "gpu001", "--slot", GPU3, "--serial", "moved", "--reason", "x", code=2) == (
        f"muster: gpu 'MOVED' is not in gpu001: it sits in gpu002, slot {GPU3}; for its return: muster "
        f"rma open "
        f"gpu002 --slot {GPU3}\n")
    said = run(home, "open", "gpu001", "--serial", "old", "--reason", "x", "--yes")
    assert f"RMA 1 is open: gpu OLD at {GPU3} of gpu001" in said
    assert "RMA 1 is open" in run(home, "open", "gpu001", "--slot", GPU3.upper(), "--reason", "x", "--yes")


def test_a_part_that_no_sweep_had_met_is_known_by_its_number_once_one_meets_it(home: Path) -> None:
    run(home, "open", "gpu003", "--slot", "slot 4", "--serial", "S9", "--reason", "x", "--held-by",
        "us", "--yes")
    run(home, "ship", "gpu003")
    run(home, "return", "gpu003", "--yes")
    look(home, "S9", node="gpu003", chassis="C3")
    assert "the SAME gpu came back in gpu003, slot 0000:9a:00.0: serial S9" in run(home, "list")
    with opened(home / "state") as store:
        assert [(seat.kind, seat.slot) for seat in whereabouts(store, "s9") if seat.ended is None] == [
            ("gpu", GPU3)]


def test_the_node_with_the_right_board_is_free_and_the_one_with_the_old_is_held_until_it_leaves(
    home: Path,
) -> None:
    returned(home, "--serial", "NEW")
    muster("inventory", "lifecycle", "gpu001", "service", "--yes", home=home)
    look(home, "NEW")
    look(home, "OLD", node="gpu002", chassis="C2")
    plan = make(known(home), load_policy([packaged()], RULES))
    assert {one.node: (one.fault, one.isolation.value, one.owner) for one in plan.verdicts
            if one.isolation is not Isolation.NONE} == {"gpu002": ("rma", "no-new-jobs", Owner.VENDOR)}
    look(home, "FINE", node="gpu002", chassis="C2")
    plan = make(known(home), load_policy([packaged()], RULES))
    assert plan.unfit == ()


def test_a_close_that_was_cut_short_is_finished_by_the_command_that_is_shown(home: Path) -> None:
    run(home, *OPEN, "--yes")
    killed("close", "1", "--reason", "not it", "--yes")
    assert "finish it with: muster rma close 1 --reason 'not it'\n" in run(home, "list")
    run(home, "close", "1", "--reason", "not it", "--yes")
    assert lifecycle(home) is LifecycleState.BRINGUP and "cut short" not in run(home, "list")
    run(home, *OPEN, "--yes")
    killed("exchange", "2", "--serial", "NEW", "--yes")
    assert "finish it with: muster rma return 2\n" in run(home, "list")
    run(home, "return", "2", "--yes")
    assert lifecycle(home) is LifecycleState.BRINGUP and "cut short" not in run(home, "list")


def killed(*words: str) -> None:
    """The command, which dies when it is about to change the file."""
    def die(file: InventoryFile, text: str) -> None:
        raise Death

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Death):
        patch.setattr(InventoryFile, "write", die)
        CliRunner().invoke(command, words, catch_exceptions=False)


def test_killed_between_the_store_and_the_file_the_next_run_says_what_is_left_and_finishes_it(
    home: Path,
) -> None:
    killed(*OPEN, "--yes")
    assert lifecycle(home) is LifecycleState.SERVICE
    left = ("RMA 1 of gpu001 was cut short, and the inventory file may not say so yet; finish it with: "
            f"muster rma open gpu001 --slot {GPU3} --reason 'rows are used up'\n")
    assert left in run(home, "list") and left in run(home, "ship", "1", code=2)
    run(home, "open", "gpu001", "--slot", GPU3, "--reason", "rows are used up", "--yes")
    assert lifecycle(home) is LifecycleState.RMA and "cut short" not in run(home, "list")
    run(home, "ship", "1")
    killed("return", "1", "--yes")
    assert lifecycle(
        home) is LifecycleState.RMA and "finish it with: muster rma return 1\n" in run(home, "list")
    run(home, "return", "gpu001", "--yes")
    assert lifecycle(home) is LifecycleState.BRINGUP and "cut short" not in run(home, "list")
    with opened(home / "state") as store:
        assert [line.action for line in lines(store, ["gpu001"]) if line.action != "cordon"] == [
            "rma open", "rma ship", "rma return"]


def test_of_two_at_once_the_second_finds_the_first(home: Path) -> None:
    with opened(home / "state") as store:
        part = ReturnedPart("gpu001", GPU3, "gpu", "OLD")
        first = opening(store, part, "a", "one", "", "", "held", time.time, lambda: "")
        second = opening(store, part, "b", "two", "", "", "held", time.time, lambda: "")
        assert second == first and len(rmas(store)) == 1
        assert shipping(store, first, {}, "one", time.time)
        assert shipping(store, first, {}, "two", time.time)     # it had looked before the other shipped
        assert [line.outcome for line in lines(store) if line.action == "rma ship"] == [
            "shipped", "not done: somebody else was first"]


class Hands(Mortal, RuleBasedStateMachine):
    """Steps in any order, some cut short, on one node with two slots and a file that is one word."""

    @initialize()
    def begin(self) -> None:
        self.folder = in_memory()
        self.file = "service"

    def writes(self, word: str, clock: Callable[[], float]) -> Callable[[], str]:
        def write() -> str:
            clock()
            self.file = word
            clock()
            return word
        return write

    LIVES = st.integers(1, 5) | st.just(1000)
    SLOTS = st.sampled_from(["", "a"])

    @rule(slot=SLOTS, lives=LIVES)
    def we_open(self, slot: str, lives: int) -> None:
        clock = self.clock(lives)
        with opened(Path(self.folder.name), make=True) as store, suppress(Death):
            opening(store, ReturnedPart("n", slot, "gpu", "s"), "why", "us", "", "", "held", clock,
                    self.writes("rma", clock))

    @rule(number=st.integers(1, 4), lives=LIVES)
    def we_ship(self, number: int, lives: int) -> None:
        with opened(Path(self.folder.name), make=True) as store, suppress(Death, UsageError):
            one = chosen(rmas(store), left := unfinished(store), str(number))
            shipping(store, one, left, "us", self.clock(lives))

    @rule(number=st.integers(1, 4), same=st.booleans(), lives=LIVES)
    def we_return(self, number: int, same: bool, lives: int) -> None:
        clock = self.clock(lives)
        with opened(Path(self.folder.name), make=True) as store, suppress(Death, UsageError):
            one = chosen(rmas(store), left := unfinished(store), str(number))
            if one.state is RmaState.RETURNED and one.id not in left:
                return
            may_return(one, same=same, new="")
            away = [each for each in rmas(store) if each.id != one.id and each.state is not RmaState.RETURNED]
            said = one.outcome or outcome(same=same, new="")
            returning(
                store, one, said, "us", clock, (lambda: "left") if away else self.writes("bringup", clock))

    @invariant()
    def what_is_not_told_as_left_is_as_the_file_says(self) -> None:
        if hasattr(self, "folder"):
            with opened(Path(self.folder.name), make=True) as store:
                found, left = rmas(store), unfinished(store)
                for one in found:
                    assert (one.returned is None) == (
                        one.outcome is None) and (one.returned is None or one.shipped is not None)
                if not left and found:
                    assert (self.file == "rma") == any(one.state is not RmaState.RETURNED for one in found)

    @rule()
    def who_comes_after_can_finish_all_of_it(self) -> None:
        with opened(Path(self.folder.name), make=True) as store:
            for number in sorted(unfinished(store)):
                one = chosen(rmas(store), unfinished(store), str(number))
                if one.state is RmaState.RETURNED:
                    self.we_return(number, False, 1000)
                else:
                    self.we_open(one.slot, 1000)
            assert not unfinished(store) and all(line.outcome is not None for line in lines(store))

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestHands = Hands.TestCase
TestHands.settings = settings(
    max_examples=tries(30), stateful_step_count=15, deadline=None,
    suppress_health_check=[HealthCheck.too_slow])
