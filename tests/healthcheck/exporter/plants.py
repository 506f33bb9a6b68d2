"""The faults that alerts are for, each planted where it arises: in what a node shows, in the store, the
inventory, a burn-in's document.

What is expected of each stands in `planted.yaml`. A plant yields the minute until which time goes by after
what it has done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from healthcheck.burnin.document import Burnin, write
from healthcheck.model.recording import Recording
from healthcheck.store import incidents, ledger, runs, verdicts, watched
from healthcheck.store.file import NAME, opened
from tests.healthcheck import machine
from tests.healthcheck.burnin import faulty as faulty_burnin
from tests.healthcheck.burnin import made as made_burnin
from tests.healthcheck.subnet.faulty import FaultyFabric
from tests.testbed.scrapes import INVENTORY, Head, Plant

NODES = ("gpu001", "gpu003")      # in service, and in maintenance with the same fault
PLANTS: dict[str, list[Plant]] = {}


def _of(*alerts: str) -> Callable[[Plant], Plant]:
    def kept(plant: Plant) -> Plant:
        for alert in alerts:
            PLANTS.setdefault(alert, []).append(plant)
        return plant

    return kept


def _gpu(**readings: Any) -> list[Recording]:
    """Both nodes with these readings of their fourth GPU."""
    changed = machine.nvml(gpu3={name: machine.reading(value) for name, value in readings.items()})
    return [machine.recording(node, gpu_nvml=changed) for node in NODES]


def _unanswered(head: Head, first: int, last: int, then: int) -> Iterator[int]:
    """The exporter does not answer from that minute to that one, and time goes by until the third."""
    yield first
    head.answers = False
    yield last
    head.answers = True
    yield then


@_of("MusterNodeSick", "MusterRuleFailed")
def a_gpu_has_met_uncorrectable_errors(head: Head) -> Iterator[int]:
    yield 5
    head.sweep(*_gpu(ecc_uncorrected=7))
    yield 15
    head.sweep(silent=["gpu001"])
    yield from _unanswered(head, 25, 28, 30)
    head.sweep()


@_of("MusterNodeDegraded")
def persistence_mode_is_off(head: Head) -> Iterator[int]:
    looks = _gpu(persistence=0)
    yield 10
    for minute in range(10, 115, 15):
        head.sweep(*looks)
        yield minute + 15
    head.sweep()


@_of("MusterNodeUnknown")
def nothing_comes_of_a_node(head: Head) -> Iterator[int]:
    yield 10
    for minute in range(10, 60, 10):
        head.sweep(silent=NODES)
        yield minute + 10
    head.sweep()


@_of("MusterAgentSilent")
def sweeps_leave_a_node_out(head: Head) -> Iterator[int]:
    for minute in range(0, 100, 10):
        head.sweep(without=NODES)
        yield minute + 10
    head.sweep()


@_of("MusterAgentSilent")
def an_agent_runs_no_more(head: Head) -> Iterator[int]:
    mute, other = machine.recording("gpu001"), machine.recording("gpu002")
    for minute in range(0, 60, 5):
        head.agent_ran(other)
        if minute <= 10 or minute >= 40:
            head.agent_ran(mute)
        yield minute + 5


@_of("MusterAgentSilent")
def a_node_that_only_its_agent_watches_is_switched_off(head: Head) -> Iterator[int]:
    look = machine.recording("gpu001")
    head.inventory.write_text("version: 1\nnodes:\n  gpu002:\n")
    for minute in range(0, 60, 5):
        if minute < 15 or minute >= 40:
            head.agent_ran(look)
        else:
            head.files["gpu001:9100"] = None
        yield minute + 5


@_of("MusterAgentCannotWrite")
def the_disk_of_an_agents_state_is_full(head: Head) -> Iterator[int]:
    look = machine.recording("gpu001")
    for minute in range(0, 60, 5):
        head.agent_ran(look, wrote=not 10 <= minute < 40)
        yield minute + 5


@_of("MusterXidBurst")
def a_gpu_falls_off_the_bus_again_and_again(head: Head) -> Iterator[int]:
    yield 20
    lines = "".join(
        f"4,{100 + n},{(1200 + n) * 1000000},-;NVRM: Xid (PCI:0000:1b:00): 31, pid=77, name=python, "
        f"MMU Fault\n"
        for n in range(6))
    head.sweep(*(machine.recording(node, kernel_log=machine.done(**{"/dev/kmsg": machine.KMSG + lines}))
                 for node in NODES))
    yield 50
    head.sweep()


@_of("MusterEccUncorrected", "MusterRowRemap")
def a_bank_gives_way(head: Head) -> Iterator[int]:
    yield 20
    head.sweep(*_gpu(ecc_uncorrected_lifetime=2, rows_uncorrected=1))


@_of("MusterEccTrend")
def corrected_errors_grow(head: Head) -> Iterator[int]:
    for minute in range(0, 840, 60):
        head.sweep(*_gpu(ecc_corrected_lifetime=100 * minute))
        yield minute + 60


@_of("MusterGpuThrottling")
def a_gpu_is_too_hot_to_run_at_its_clock(head: Head) -> Iterator[int]:
    for minute in range(0, 150, 15):
        head.sweep(*_gpu(slowdown_hw_thermal_ns=min(minute, 45) * 6 * 10**9))
        yield minute + 15


@_of("MusterGpuTemperatureOutlier")
def a_gpu_is_hotter_than_its_equals(head: Head) -> Iterator[int]:
    looks = _gpu(temperature_c=60)
    yield 10
    for minute in range(10, 110, 20):
        head.sweep(*looks)
        yield minute + 20
    head.sweep()


@_of("MusterLinkFlapping")
def a_link_comes_and_goes(head: Head) -> Iterator[int]:
    yield 20
    for times in (1, 2, 3):
        head.sweep(*(machine.recording(node,
                                       port_sysfs=machine.ports(8, **{"mlx5_2.link_downed": f"{times}\n"}))
                     for node in NODES))
        yield 20 + 10 * times


@_of("MusterVersionDrift")
def a_node_runs_another_driver(head: Head) -> Iterator[int]:
    other = {"/proc/sys/kernel/osrelease": "6.5.0-1019\n", "/sys/module/nvidia/version": "570.86.15\n"}
    look = machine.recording("gpu001", host_versions=machine.done(**other))
    for minute in range(0, 480, 30):
        head.sweep(*([look] if minute >= 30 else []))
        yield minute + 30
    head.sweep()


@_of("MusterBreakerOpen")
def the_breaker_opens(head: Head) -> Iterator[int]:
    yield 10
    with opened(head.state) as store, store.writing() as db:
        db.execute("INSERT INTO breaker (opened, why) VALUES (?, 'many')", (head.seconds,))
    yield from _unanswered(head, 15, 18, 20)
    with opened(head.state) as store, store.writing() as db:
        assert verdicts.close_breaker(db, head.seconds, "me", "one rack")


@_of("MusterIncident")
def several_nodes_share_a_cause(head: Head) -> Iterator[int]:
    yield 10
    with opened(head.state) as store, store.writing() as db:
        db.execute(
            "INSERT INTO incident (kind, cause, nodes, why, owner, began, seen) VALUES ('leaf', 'leaf1', "
            "'[]', 'w', 'network', 1, 1)")
    yield from _unanswered(head, 15, 18, 20)
    with opened(head.state) as store:
        assert incidents.close(store, 1, "mended", "me", head.seconds)


@_of("MusterOperationUnfinished")
def a_muster_is_killed_while_it_acts(head: Head) -> Iterator[int]:
    yield 10
    with opened(head.state) as store, store.writing() as db:
        line = ledger.begin(db, head.seconds, "me", "reboot", "gpu001", "why")
    yield 50
    with opened(head.state) as store, store.writing() as db:
        ledger.finish(db, line, "rebooted", head.seconds)


def _triage(head: Head, outcome: str) -> None:
    with opened(head.state) as store:
        runs.finish(store, runs.begin(store, "me", "head", "{}", head.seconds), outcome, head.seconds + 5)


@_of("MusterTriageNotRunning")
def triage_is_not_run_any_more(head: Head) -> Iterator[int]:
    yield 5
    _triage(head, "done: nothing to do")
    yield 110
    _triage(head, "done: nothing to do")


@_of("MusterTriageFailing")
def triage_cannot_do_what_it_decides(head: Head) -> Iterator[int]:
    for minute in range(0, 70, 10):
        _triage(head, "failed: slurm does not answer" if 10 <= minute < 60 else "done: nothing to do")
        yield minute + 10


@_of("MusterExporterDown")
def the_exporter_does_not_answer(head: Head) -> Iterator[int]:
    yield 5
    head.answers = False
    yield 20
    head.answers = True


@_of("MusterSourceDown")
def the_store_is_damaged(head: Head) -> Iterator[int]:
    yield 5
    with opened(head.state) as store:
        store.backup(head.state / "copy")
    for path in head.state.glob(f"{NAME}*"):
        path.unlink()
    (head.state / NAME).write_bytes(b"rubbish" * 4096)
    yield 15
    (head.state / "copy").replace(head.state / NAME)


@_of("MusterCheckStale")
def no_one_sweeps(head: Head) -> Iterator[int]:
    yield 80
    head.sweep()


@_of("MusterSweeperDown")
def the_exporters_sweeps_end_and_are_started_again_less_and_less(head: Head) -> Iterator[int]:
    head.sweeper = (True, 1)
    yield 5
    head.sweeper = (False, 3)
    yield 25
    head.sweeper = (True, 4)


@_of("MusterSweeperDown")
def the_exporters_sweeps_end_each_after_a_minute(head: Head) -> Iterator[int]:
    for minute in range(60):
        head.sweeper = (True, 1 + max(0, min(minute, 30) - 5))
        yield minute + 1


@_of("MusterInventoryUnreadable")
def the_inventory_is_edited_badly(head: Head) -> Iterator[int]:
    yield 5
    head.inventory.write_text("version: 1\nnodes: [")
    yield 30
    head.inventory.write_text(INVENTORY)


@_of("MusterSeriesLeftOut")
def the_fleet_outgrows_the_page(head: Head) -> Iterator[int]:
    head.most = 1070
    yield 5
    head.inventory.write_text(INVENTORY + "".join(f"  more{n:02}:\n" for n in range(12)))
    yield 30
    head.inventory.write_text(INVENTORY)


@cache
def _faulty() -> Burnin:
    return faulty_burnin.faulty()


def _burnt(head: Head, burnin: Burnin, run: str) -> None:
    write(head.state,
          replace(burnin, run=run, began=head.seconds - 1, ended=head.seconds, options={"finished": True}))


@_of("MusterBurninWrongData", "MusterBurninFailed", "MusterBurninUnexplained")
def a_burn_in_finds_a_gpu_that_computes_wrongly_and_a_slow_pair(head: Head) -> Iterator[int]:
    yield 5
    _burnt(head, _faulty(), "20260101T000500-1")
    yield from _unanswered(head, 10, 13, 20)
    _burnt(head, made_burnin.burnin(), "20260101T002000-1")


@_of("MusterBurninUnknown")
def a_burn_in_does_not_measure_all(head: Head) -> Iterator[int]:
    yield 5
    _burnt(head, _faulty(), "20260101T000500-1")
    yield 80
    _burnt(head, made_burnin.burnin(), "20260101T012000-1")


@_of("MusterBurninOld")
def no_burn_in_is_run_any_more(head: Head) -> Iterator[int]:
    yield 5
    _burnt(head, made_burnin.burnin(), "20260101T000500-1")
    yield 80
    _burnt(head, made_burnin.burnin(), "20260101T012000-1")


@_of("MusterJobHangs", "MusterJobSlowed")
def a_job_hangs_and_a_node_slows_another(head: Head) -> Iterator[int]:
    def seen(ended: float | None = None) -> None:
        with opened(head.state) as store:
            watched.write(store, [
                watched.WatchedNode("4711", "a", "gpu001", (5,), "hang", "unknown", "cannot tell", 1.0,
                                    "it hangs", began, head.seconds, ended),
                watched.WatchedNode("4712", "b", "gpu002", (9, 10), "step_down", "thermal", "likely", 0.3,
                                    "hot", began, head.seconds, ended)])

    yield 5
    began = head.seconds
    seen()
    yield 10
    seen()
    head.answers = False
    yield 13
    head.answers = True
    yield 20
    seen(head.seconds)
    yield 30


@_of("MusterFabricFault", "MusterFabricUnmeasured")
def a_link_has_errors_that_a_later_check_does_not_measure(head: Head) -> Iterator[int]:
    fabric = FaultyFabric()
    yield 5
    fabric.errors[fabric.cable("leaf001", "2")] = 5000
    fabric.store(head.state, head.seconds)
    yield from _unanswered(head, 10, 13, 20)
    fabric.errors.clear()
    fabric.counted = False
    fabric.store(head.state, head.seconds)
    yield 70
    fabric.counted = True
    fabric.store(head.state, head.seconds)
    yield 90
