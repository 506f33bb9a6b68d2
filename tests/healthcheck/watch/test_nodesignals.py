"""What two samples of a node say of the time between them; whatever the files hold, nothing is made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.watch.nodeload import LOAD, NodeLoad, load_of
from healthcheck.watch.nodesignals import probes, sampled
from healthcheck.watch.nodesignals import signals_between as between
from healthcheck.watch.signals import NodeSignal, SignalKind
from inventory.transport.base import Failure, Stage
from tests.healthcheck import machine

THEN: Mapping[str, str] = {
    "/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 "
                             "avg60=0.00 avg300=0.00 total=5",
    "/proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1",
    "/proc/vmstat": "nr_free_pages 5\npswpin 100\npgmajfault 7",
    "/proc/diskstats": "   8       0 sda 100 0 800 50 100 0 800 50 0 60 100\n   8       1 sda1 100 0 800 50 "
                       "100 0 800 50 0 60 100",
    "/proc/net/snmp": "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 1000 10",
    "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1/cpu.stat": "usage_usec 5\nthrottled_usec 1000000",
}
NOW: Mapping[str, str] = {
    "/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=4000000",
    "/proc/stat": "cpu  150 0 100 830 0 0 0 20 0 0",
    "/proc/vmstat": "pswpin 1100",
    "/proc/diskstats": "   8       0 sda 200 0 800 5050 100 0 800 50 0 60 100\n   8       1 sda1 900 0 800 "
                       "50 100 0 800 50 0 60 100",
    "/proc/net/snmp": "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 2000 60",
    "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1/cpu.stat": "throttled_usec 6000000",
}


def recording(files: Mapping[str, str], time: float, boot: str = "b") -> Recording:
    entries = {path: FileCapture(Outcome.DONE, text) for path, text in files.items()}
    return Recording("gpu001", time, Host("gpu001", boot, time, 0, "3.11.2", "x86_64", 0.1), None,
                     {LOAD.id: Capture(Outcome.DONE, files=entries)})


def signals_between(first: Recording, second: Recording) -> list[NodeSignal]:
    before, after = sampled(first), sampled(second)
    assert before is not None and after is not None
    return between(before, after)


def test_a_node_that_was_not_reached_is_no_sample() -> None:
    assert sampled(Recording("gpu001", 100.0, None, Failure(Stage.CONNECT, "refused"), {})) is None


def test_counters_become_shares_and_rates_of_the_time_between() -> None:
    found = signals_between(recording(THEN, 100.0), recording(NOW, 110.0))
    assert {one.kind: one.value for one in found} == pytest.approx({
        SignalKind.MEMORY_PRESSURE: 0.3, SignalKind.CPU_STEAL: 0.2, SignalKind.SWAPPING: 100.0,
        SignalKind.DISK_LATENCY: 0.05,
        SignalKind.RETRANSMITS: 0.05, SignalKind.CPU_QUOTA: 0.5})
    assert [one.part for one in found if one.part] == ["sda"]


@pytest.mark.parametrize(("first", "second"), [
    (recording(THEN, 100.0), recording(NOW, 110.0, boot="other")),
    (recording(THEN, 110.0), recording(NOW, 100.0)),
    (recording(THEN, 100.0), recording({}, 110.0)),
    (recording(NOW, 100.0), recording({**THEN, "/proc/stat": "cpu"}, 110.0)),
])
def test_a_reboot_a_clock_set_back_and_counters_that_fell_say_nothing(first: Recording,
                                                                      second: Recording) -> None:
    assert signals_between(first, second) == []


def hot(seconds: float, time: float) -> Recording:
    """The machine of the tests, whose third GPU was in thermal slowdown for so long."""
    first, *rest = [json.loads(line) for line in machine.nvml().text.splitlines()]
    for line in rest:
        line["uuid"] = {"ok": f"GPU-8a2f-{line['index']}"}
        line["slowdown_thermal_ns"] = {"ok": int(1e9 * seconds) if line["index"] == 3 else 0}
    capture = replace(machine.nvml(), text="".join(json.dumps(line) + "\n" for line in (first, *rest)))
    whole = recording({}, time)
    return replace(whole, captures={**whole.captures, "gpu.nvml": capture})


def test_a_signal_of_a_gpu_has_all_names_that_a_rank_may_call_it() -> None:
    found = [one
             for one in signals_between(hot(5.0, 100.0), hot(9.0, 110.0)) if one.kind is SignalKind.THERMAL]
    (one,) = [one for one in found if one.value > 0]
    assert one.value == pytest.approx(0.4) and one.gpu == {"3", "0000:1b:00.0", "8a2f-3"}
    assert len({other.gpu for other in found}) == len(found) > 1


def test_only_passive_probes_are_sent() -> None:
    assert "gpu.nvml" in {probe.id for probe in probes().probes}


@given(st.dictionaries(st.sampled_from(sorted(THEN)), st.text(max_size=200)),
       st.dictionaries(st.sampled_from(sorted(THEN)), st.text(max_size=200)))
def test_no_text_of_a_file_breaks_it(first: dict[str, str], second: dict[str, str]) -> None:
    signals_between(recording(first, 1.0), recording(second, 2.0))


@given(st.text(alphabet="0123456789 cpusometal=\n", max_size=300))
def test_a_file_of_the_right_letters_gives_numbers_or_nothing(text: str) -> None:
    for path in THEN:
        assert isinstance(load_of([path], lambda _: text), NodeLoad)
