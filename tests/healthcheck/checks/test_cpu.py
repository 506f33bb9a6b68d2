"""Rules of rules/cpu.yaml: each passes at its limit, fails beyond it, and says what it could not see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.cpu import CPU, cpu_list
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.model.outcome import Owner, Status
from healthcheck.model.recording import Outcome
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import files, spoilt
from tests.healthcheck.checks.verdicts import cohort, ids, status_findings, verdict

NUMBERS = {"cpu_count": 224, "numa_nodes": 2}
GRACE = {
    "/online": "0-2\n", "/sys/devices/system/node/node2/cpulist": "\n",
    "/sys/devices/system/node/node2/meminfo": "Node 2 MemTotal:       97000000 kB\n",
}
# A node of 224 CPUs of which half work.
BUSY = {"/loadavg": "112.00 0.18 0.12 1/2931 11206\n"}
CRIT = "/sys/bus/pci/drivers/k10temp/0000:00:18.3/hwmon/hwmon4/temp1_crit"
INTEL = "/sys/bus/platform/drivers/coretemp/coretemp.0/hwmon/hwmon1/temp1_"
PASSING = [
    ("cpu-temperature", "cpu.throttle", {"0000:00:19.3/hwmon/hwmon5/temp1_input": "95000\n"}),
    ("cpu-temperature", "cpu.throttle", {
        "0000:00:18.3/hwmon/hwmon4/temp1_input": "99000\n", CRIT: "100000\n"}),
    ("cpu-frequency-cap", "cpu.throttle", {}),
    # Rounding: 95 per cent.
    ("cpu-frequency-cap", "cpu.throttle", {"/bios_limit": "2280000\n"}),
    # intel_pstate has no bios_limit and tells the base itself.
    ("cpu-frequency-cap", "cpu.throttle", {
        "/bios_limit": None, f"{CPU}/cpufreq/policy0/base_frequency": "2000000\n",
        "/scaling_max_freq": "2000000\n"}),
    ("cpu-frequency-low", "cpu.throttle", {**BUSY, "/scaling_cur_freq": "1920000\n"}),
    # An idle CPU's frequency says nothing.
    ("cpu-frequency-low", "cpu.throttle", {"/scaling_cur_freq": "400000\n",
                                            "/loadavg": "111.00 0.18 0.12 1/2931 11206\n"}),
    # One of the sampled CPUs is idle.
    ("cpu-frequency-low", "cpu.throttle", {
        **BUSY, "policy0/scaling_cur_freq": "3000000\n", "policy10/scaling_cur_freq": "3000000\n",
        f"{CPU}/cpufreq/policy20/scaling_cur_freq": "400000\n"}),
    ("cpu-frequency-setting", "cpu.throttle", {}), ("cpu-frequency-setting", "cpu.throttle", {
        "/scaling_max_freq": "3515000\n"}),
    # What is below the base, too, cpu-frequency-cap reports.
    ("cpu-frequency-setting", "cpu.throttle", {"/scaling_max_freq": "1500000\n"}),
    # A sound EPYC with acpi-cpufreq and Linux 5.15: turbo begins at the highest setting, its base.
    ("cpu-frequency-setting", "cpu.throttle", {
        "/scaling_driver": "acpi-cpufreq\n", "/scaling_max_freq": "2400000\n"}),
    # Arm's cppc_cpufreq, whose firmware tells no base; with boost off the highest is the nominal one.
    ("cpu-frequency-setting", "cpu.throttle", {
        "/scaling_driver": "cppc_cpufreq\n", "/nominal_freq": None, "/bios_limit": None,
        "/cpuinfo_max_freq": "3400000\n", "/scaling_max_freq": "3400000\n"}),
    ("cpu-turbo", "cpu.throttle", {}), ("cpu-turbo", "cpu.throttle", {
        "/boost": None, f"{CPU}/intel_pstate/no_turbo": "0\n"}),
    ("cpu-governor-slowest", "cpu.governor", {}),
    ("cpu-governor-slowest", "cpu.governor", {"/scaling_governor": "powersave\n"}),
    ("cpu-governor-slowest", "cpu.governor", {
        "/scaling_governor": "schedutil\n", "/scaling_driver": "acpi-cpufreq\n"}),
    ("cpu-count", "cpu.topology", {}), ("cpu-offline", "cpu.topology", {}),
    ("cpu-governor", "cpu.governor", {}),
    ("numa-nodes", "numa.nodes", {}), ("numa-memory", "numa.nodes", {}),
    ("numa-affinity", "numa.devices", {}),
    # Hardware threads that are off leave half of the CPUs offline.
    ("cpu-offline", "cpu.topology", {"/online": "0-111\n", "/control": "off\n"}),
    ("cpu-offline", "cpu.topology", {"/online": "0-111\n", "/control": "forceoff\n"}),
    # The memory of a Grace superchip's GPU is a node without CPUs.
    ("numa-nodes", "numa.nodes", GRACE),
    ("numa-memory", "numa.nodes", GRACE),
    # 95 per cent
    ("numa-memory", "numa.nodes", {"node1/meminfo": "Node 1 MemTotal:       1003200000 kB\n"}),
    ("numa-affinity", "numa.devices", {"/online": "0\n", "1b:00.0/numa_node": "-1\n"}),
]
FAILING = [
    ("cpu-frequency-setting", "cpu.throttle", {"policy5/scaling_max_freq": "2400000\n"},
     "CPU frequency: 1 of 3 sampled CPUs are set to 2400 MHz at most (scaling_max_freq), expected the "
     "highest "
     "frequency of 3700 MHz"),
    ("cpu-frequency-setting", "cpu.throttle", {
        "/scaling_driver": "cppc_cpufreq\n", "/nominal_freq": None, "/bios_limit": None,
        "/cpuinfo_max_freq": "3400000\n", "/scaling_max_freq": "1000000\n"},
     "CPU frequency: 3 of 3 sampled CPUs are set to 1000 MHz at most (scaling_max_freq), expected the "
     "highest "
     "frequency of 3400 MHz"),
    ("cpu-frequency-setting", "cpu.throttle", {f"{CPU}/intel_pstate/max_perf_pct": "50\n"},
     "CPU frequency: 50 % of the performance at most (intel_pstate/max_perf_pct), expected at least 95 %"),
    ("cpu-turbo", "cpu.throttle", {"/boost": "0\n"}, "CPU turbo: off (boost), expected on"),
    ("cpu-turbo", "cpu.throttle", {"/boost": "0\n", "/scaling_driver": None},
     "CPU turbo: off (boost), expected on"),
    # Where both are there, Intel's own driver is asked.
    ("cpu-turbo", "cpu.throttle", {f"{CPU}/intel_pstate/no_turbo": "1\n"},
     "CPU turbo: off (no_turbo), expected on"),
    ("cpu-governor-slowest", "cpu.governor", {
        "policy1/scaling_governor": "powersave\n", "/scaling_driver": "acpi-cpufreq\n"},
     "CPU frequency: powersave on 1 of 2 policies with acpi-cpufreq, which is the lowest frequency, expected "
     "another governor"),
    # A Tctl without a limit, as k10temp has it on Zen, and one with.
    ("cpu-temperature", "cpu.throttle", {"0000:00:19.3/hwmon/hwmon5/temp1_input": "95125\n"},
     "CPU package 1: 95.125 C, expected at most 95 C"),
    ("cpu-temperature", "cpu.throttle", {
        "0000:00:18.3/hwmon/hwmon4/temp1_input": "90000\n", CRIT: "90000\n"},
     "CPU package 0: 90 C, expected less than 90 C, at which it throttles"),
    ("cpu-frequency-cap", "cpu.throttle", {"/bios_limit": "1500000\n"},
     "CPU frequency: 3 of 3 sampled CPUs may run at 1500 MHz at most, by the firmware (bios_limit), expected "
     "the base frequency of 2400 MHz, or more"),
    ("cpu-frequency-cap", "cpu.throttle", {"policy5/scaling_max_freq": "1200000\n"},
     "CPU frequency: 1 of 3 sampled CPUs may run at 1200 MHz at most, by a setting (scaling_max_freq), "
     "expected the base frequency of 2400 MHz, or more"),
    ("cpu-frequency-low", "cpu.throttle", {**BUSY, "/scaling_cur_freq": "544000\n"},
     "CPU frequency: half of the sampled CPUs run at 544 MHz or less, at 50% load, expected at least 80% of "
     "the base frequency of 2400 MHz"),
    ("cpu-count", "cpu.topology", {"/online": "0-222\n"}, "CPUs: 223 of 224 online, expected 224"),
    ("cpu-count", "cpu.topology", {"/online": "0-225\n", "/present": "0-225\n"},
     "CPUs: 226 of 226 online, expected 224"),
    ("cpu-count", "cpu.topology", {"/online": "0-111\n", "/control": "off\n"},
     "CPUs: 112 of 224 online, hardware threads are off, expected 224"),
    ("cpu-offline", "cpu.topology", {"/online": "0-99,101-223\n"},
     "CPUs: 1 offline: 100, expected all 224 online"),
    ("cpu-offline", "cpu.topology", {"/online": "0-110\n", "/control": "off\n"},
     "CPUs: 113 offline: 111, 112, 113, 114, 115, 116, 117, 118 ..., expected all 224 online"),
    ("cpu-governor", "cpu.governor", {"policy1/scaling_governor": "powersave\n"},
     "CPU frequency: powersave on 1 of 2 policies, expected performance"),
    ("numa-nodes", "numa.nodes", {"/online": "0\n"}, "NUMA: 1 nodes with CPUs, expected 2"),
    ("numa-memory", "numa.nodes", {"node1/meminfo": "Node 1 MemTotal:       1003199999 kB\n"},
     "NUMA node 1: 956.7 GiB, expected about 1007.1 GiB, as the node that has most (within 5 %)"),
    ("numa-affinity", "numa.devices", {"1b:00.0/numa_node": "-1\n"},
     "nvidia 0000:1b:00.0: on no NUMA node, expected on one of 2"),
]
RESTS_ON = [
    ("cpu-count", "cpu.topology", "/online"), ("cpu-offline", "cpu.topology", "/present"),
    ("cpu-governor", "cpu.governor", "policy0/scaling_governor"),
    ("cpu-governor-slowest", "cpu.governor", "policy0/scaling_governor"),
    ("cpu-frequency-setting", "cpu.throttle", "policy5/cpuinfo_max_freq"),
    ("cpu-frequency-setting", "cpu.throttle", "policy10/scaling_max_freq"),
    ("cpu-turbo", "cpu.throttle", "/boost"),
    ("cpu-quota", "cpu.quota", "/sys/fs/cgroup/system.slice/cpu.stat"),
    ("cpu-core-throttled", "cpu.cores", "cpu61/thermal_throttle/core_throttle_count"),
    ("cpu-core-throttled", "cpu.cores", "cpu1/topology/physical_package_id"),
    ("numa-nodes", "numa.nodes", "node1/cpulist"),
    ("numa-memory", "numa.nodes", "node0/meminfo"), ("numa-affinity", "numa.devices", "40:00.0/numa_node"),
    ("cpu-throttled", "cpu.throttle", "cpu60/thermal_throttle/package_throttle_count"),
    ("cpu-throttled", "cpu.throttle", "cpu0/topology/physical_package_id"),
    ("cpu-temperature", "cpu.throttle", "0000:00:19.3/hwmon/hwmon5/temp1_input"),
    ("cpu-frequency-cap", "cpu.throttle", "policy5/bios_limit"),
    ("cpu-frequency-cap", "cpu.throttle", "policy5/scaling_max_freq"),
    ("cpu-frequency-cap", "cpu.throttle", "/nominal_freq"),
    ("cpu-frequency-low", "cpu.throttle", "policy10/scaling_cur_freq"),
    ("cpu-frequency-low", "cpu.throttle", "/loadavg"), ("cpu-frequency-low", "cpu.throttle", "/online"),
]
LACKING = [("cpu-governor", "cpu.governor", ("policy0/scaling_governor", "policy1/scaling_governor")),
           ("cpu-throttled", "cpu.throttle",
            tuple(f"cpu{n}/thermal_throttle/package_throttle_count" for n in (0, 5, 60))),
           ("cpu-throttled", "cpu.throttle",
            tuple(f"cpu{n}/{name}" for n in (0, 5, 60)
                  for name in ("topology/physical_package_id", "thermal_throttle/package_throttle_count"))),
           ("cpu-core-throttled", "cpu.cores", ("/core_throttle_count",)),
           ("cpu-turbo", "cpu.throttle", ("/boost",)),
           ("cpu-frequency-setting", "cpu.throttle", ("/cpuinfo_max_freq",)),
           ("cpu-governor-slowest", "cpu.governor", ("/scaling_governor",)),
           # Neither driver has a sensor (a virtual CPU, Arm's); no cpufreq; a kernel that tells no base.
           ("cpu-temperature", "cpu.throttle", ("temp1_input",)),
           ("cpu-frequency-cap", "cpu.throttle", ("/scaling_max_freq", "/bios_limit")),
           ("cpu-frequency-cap", "cpu.throttle", ("/nominal_freq",)),
           ("cpu-frequency-low", "cpu.throttle", ("/scaling_cur_freq",)),
           ("cpu-frequency-low", "cpu.throttle", ("/nominal_freq",)),
           ("numa-affinity", "numa.devices", ("/numa_node",))]


@pytest.mark.parametrize(("rule", "probe", "texts"), PASSING)
def test_a_node_at_its_limit_passes(rule: str, probe: str, texts: dict[str, str]) -> None:
    assert status_findings(rule, files(probe, texts), **NUMBERS) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "probe", "texts", "words"), FAILING)
def test_a_node_beyond_it_is_told_what_is_wrong(rule: str, probe: str, texts: dict[str, str],
                                                words: str) -> None:
    assert status_findings(rule, files(probe, texts), **NUMBERS) == (Status.FAIL, words)


@pytest.mark.parametrize(("rule", "probe", "path"), RESTS_ON)
@pytest.mark.parametrize("wrong", [Outcome.DENIED, Outcome.TIMEOUT, "\x1b[31m?\n", "-2\n",
                                   "99999999999999999999999999\n"])
def test_what_could_not_be_read_is_unknown(rule: str, probe: str, path: str, wrong: Outcome | str) -> None:
    before = machine.recording()
    assert verdict(rule, files(probe, {path: wrong}), before, **NUMBERS).status is Status.UNKNOWN


@pytest.mark.parametrize("half", ["0", "1", "12 9"])
def test_the_beginning_of_a_load_is_no_load(half: str) -> None:
    assert verdict("cpu-frequency-low", files("cpu.throttle", {"/proc/loadavg": half}),
                   **NUMBERS).status is Status.UNKNOWN


@pytest.mark.parametrize(("rule", "probe", "paths"), LACKING)
def test_what_this_hardware_does_not_have_is_skipped_and_says_so(
    rule: str, probe: str, paths: tuple[str, ...],
) -> None:
    without = files(probe, dict.fromkeys(paths))
    result = verdict(rule, without, without)
    assert (result.status, result.reason.partition(":")[0]) == (Status.SKIPPED, "not supported")


@pytest.mark.parametrize(("count", "status", "words"), [
    (7, Status.PASS, ""),
    (8, Status.FAIL, "CPU package 1: throttled 1 times since the earlier snapshot, expected at most 0 times"),
    (6, Status.UNKNOWN, ""),
])
def test_a_package_is_accused_of_what_it_was_throttled_since_the_last_look(
    count: int, status: Status, words: str,
) -> None:
    """Package 1 had been throttled 7 times by then."""
    now = files("cpu.throttle", {"cpu60/thermal_throttle/package_throttle_count": f"{count}\n"})
    assert status_findings("cpu-throttled", now, machine.recording()) == (status, words)


@pytest.mark.parametrize(("path", "rule"), [
    ("policy10/scaling_cur_freq", "cpu-frequency-low"), ("hwmon5/temp1_input", "cpu-temperature"),
    ("cpu60/topology/physical_package_id", "cpu-throttled"),
])
def test_a_file_of_one_kind_that_cannot_be_read_costs_the_others_nothing(path: str, rule: str) -> None:
    unread = files("cpu.throttle", {path: Outcome.DENIED})
    others = {"cpu-frequency-low", "cpu-temperature", "cpu-throttled"} - {rule}
    assert verdict(rule, unread, machine.recording()).status is Status.UNKNOWN
    assert {verdict(other, unread, machine.recording()).status for other in others} == {Status.PASS}


def test_amds_and_intels_sensors_are_the_packages_that_they_sit_in() -> None:
    both = files("cpu.throttle", {f"{INTEL}input": "55000\n", f"{INTEL}crit": "100000\n",
                                     "0000:00:18.3/hwmon/hwmon4/temp1_input": None})
    found = build_fact(FACTS["cpu_temperatures"], Captures(both))
    assert [(one.name, one.celsius, one.limit_c) for one in found] == [
        ("CPU package 0", 55.0, 100.0), ("CPU package 1", 62.125, 0.0)]


def test_a_cpu_of_amd_is_judged_beside_a_job_as_one_of_intel_is() -> None:
    judged = {rule.id for rule in packagedrules.RULES.under("timer") if not rule.left_out}
    assert {"cpu-throttled", "cpu-temperature", "cpu-frequency-cap", "cpu-frequency-low"} <= judged


def test_a_limit_of_the_firmware_is_the_data_centres_and_a_setting_the_operators() -> None:
    def owner(path: str) -> Owner | None:
        return verdict("cpu-frequency-cap", files("cpu.throttle", {path: "1000000\n"})).findings[0].owner
    assert (owner("/bios_limit"), owner("/scaling_max_freq")) == (Owner.DATACENTRE, Owner.OPERATOR)


CORES = "thermal_throttle/core_throttle_count"


@pytest.mark.parametrize(("counts", "status", "words"), [
    ({}, Status.PASS, ""),
    ({f"cpu1/{CORES}": "9\n", f"cpu5/{CORES}": "4\n"}, Status.FAIL,
     "CPU package 0: CPU 1, 5 of 3 throttled, up to 9 times since the earlier snapshot, expected at most 0 "
     "times"),
    ({f"cpu61/{CORES}": "3\n"}, Status.FAIL,
     "CPU package 1: CPU 61 of 2 throttled, up to 1 times since the earlier snapshot, expected at most 0 "
     "times"),
    ({f"cpu61/{CORES}": "1\n"}, Status.UNKNOWN, ""),
])
def test_cores_that_were_throttled_alone_are_named(counts: dict[str, str], status: Status,
                                                   words: str) -> None:
    assert status_findings("cpu-core-throttled", files("cpu.cores", counts),
                           machine.recording()) == (status, words)


def test_where_the_whole_package_was_throttled_its_cores_are_not_another_fault() -> None:
    hot = files("cpu.cores", {f"cpu61/{CORES}": "30\n"})
    package = files("cpu.throttle", {"cpu60/thermal_throttle/package_throttle_count": "99\n"})
    both = replace(hot, captures={**hot.captures, "cpu.throttle": package.captures["cpu.throttle"]})
    assert verdict("cpu-core-throttled", both, machine.recording()).status is Status.PASS
    assert verdict("cpu-throttled", both, machine.recording()).status is Status.FAIL


def test_a_core_that_cannot_be_read_hides_no_hot_one() -> None:
    now = files("cpu.cores", {f"cpu0/{CORES}": Outcome.DENIED, f"cpu1/{CORES}": "9\n"})
    result = verdict("cpu-core-throttled", now, machine.recording())
    assert (result.status, "CPU 0" in result.reason) == (Status.FAIL, True)


def test_a_core_without_a_counter_beside_those_that_have_one_is_unknown() -> None:
    result = verdict("cpu-core-throttled", files("cpu.cores", {f"cpu1/{CORES}": None}), machine.recording())
    assert (result.status, "CPU 1" in result.reason) == (Status.UNKNOWN, True)


def test_every_core_is_not_read_beside_a_job() -> None:
    judged = {rule.id for rule in packagedrules.RULES.under("timer") if not rule.left_out}
    assert "cpu-core-throttled" not in judged and "cpu-throttled" in judged


@pytest.mark.parametrize("file", ["/boost", "/cpuinfo_max_freq"])
def test_a_new_reading_that_is_odd_costs_the_older_rules_nothing(file: str) -> None:
    odd = files("cpu.throttle", {file: Outcome.DENIED})
    older = ("cpu-frequency-cap", "cpu-frequency-low", "cpu-temperature", "cpu-throttled")
    assert {verdict(rule, odd, machine.recording()).status for rule in older} == {Status.PASS}


def test_policies_that_cannot_be_listed_are_unknown_and_not_unsupported() -> None:
    folder = files("cpu.throttle", {f"{CPU}/cpufreq": Outcome.DENIED, "/cpuinfo_max_freq": None,
                                    "/scaling_max_freq": None, "/bios_limit": None})
    assert verdict("cpu-frequency-setting", folder).status is Status.UNKNOWN
    assert verdict("cpu-frequency-cap", folder).status is Status.UNKNOWN


def test_arms_driver_leaves_boost_off_by_itself_and_a_fleet_is_compared_all_the_same() -> None:
    arm = files("cpu.throttle", {"/boost": "0\n", "/scaling_driver": "cppc_cpufreq\n"})
    result = verdict("cpu-turbo", arm)
    assert (result.status, "cppc_cpufreq" in result.reason) == (Status.SKIPPED, True)
    on = files("cpu.throttle", {"/scaling_driver": "cppc_cpufreq\n"})
    assert [status
            for status, _ in cohort("fleet-turbo", on, arm, arm, arm)] == [Status.FAIL, *[Status.PASS] * 3]


def test_turbo_that_is_off_is_no_frequency_that_was_set_as_well() -> None:
    """In some versions intel_pstate then shows the base as scaling_max_freq beside the highest with turbo."""
    off = files("cpu.throttle", {
        "/boost": None, "/bios_limit": None, "/nominal_freq": None, "/scaling_driver": "intel_pstate\n",
        f"{CPU}/intel_pstate/no_turbo": "1\n", f"{CPU}/cpufreq/policy0/base_frequency": "2000000\n",
        "/scaling_max_freq": "2000000\n", "/cpuinfo_max_freq": "3800000\n"})
    judged = {rule: verdict(rule, off).status
              for rule in ("cpu-turbo", "cpu-frequency-setting", "cpu-frequency-cap")}
    assert judged == {"cpu-turbo": Status.FAIL, "cpu-frequency-setting": Status.PASS,
                      "cpu-frequency-cap": Status.PASS}


def test_a_site_that_wants_turbo_off_says_so() -> None:
    off = files("cpu.throttle", {"/boost": "0\n"})
    assert verdict("cpu-turbo", off, having={"expected": False}).status is Status.PASS
    assert verdict("cpu-turbo", machine.recording(), having={"expected": False}).status is Status.FAIL


def test_the_node_whose_turbo_is_off_is_the_odd_one_and_one_that_says_nothing_is_skipped() -> None:
    off, none = files("cpu.throttle", {"/boost": "0\n"}), files("cpu.throttle", {"/boost": None})
    said = cohort("fleet-turbo", off, *[machine.recording()] * 4, none)
    assert said[0] == (Status.FAIL, "CPU turbo: off, expected on, as on 4 of 5 nodes")
    assert {status for status, _ in said[1:5]} == {Status.PASS} and said[5][0] is Status.SKIPPED


def test_a_node_whose_cpus_reach_less_than_its_peers_is_named() -> None:
    slow = files("cpu.throttle", {"/cpuinfo_max_freq": "2400000\n"})
    favoured = files("cpu.throttle", {"policy5/cpuinfo_max_freq": "3800000\n"})
    unread = files("cpu.throttle", {"/cpuinfo_max_freq": Outcome.DENIED})
    said = cohort("fleet-cpu-frequency", slow, favoured, *[machine.recording()] * 4, unread)
    assert said[0][0] is Status.FAIL and "2400 MHz, 1300 MHz below the median" in said[0][1]
    assert {status for status, _ in said[1:6]} == {Status.PASS} and said[6][0] is Status.UNKNOWN


def quota(periods: int, throttled: int) -> str:
    return f"usage_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 1\n"


@pytest.mark.parametrize(("now", "status", "words"), [
    ({}, Status.PASS, ""), ({"system.slice/cpu.stat": quota(9000, 262)}, Status.PASS, ""),
    ({"system.slice/cpu.stat": quota(9000, 273)}, Status.FAIL,
     "control group system.slice: stopped by its quota in 26 % of 1000 periods, expected at most 25 %"),
    # Too short to say anything.
    ({"system.slice/cpu.stat": quota(8099, 111)}, Status.PASS, ""),
    ({"system.slice/cpu.stat": quota(7000, 0)}, Status.UNKNOWN, ""),
    # A job that began since, and a daemon whose quota is new: all of their periods count.
    ({"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/cpu.stat": quota(200, 180)}, Status.FAIL,
     "control group system.slice/slurmstepd.scope/job_12: stopped by its quota in 90 % of 200 periods, "
     "expected "
     "at most 25 %"),
    ({"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/cpu.stat": quota(200, 0)}, Status.PASS, ""),
    ({"slurmd.service/cpu.stat": quota(400, 400)}, Status.FAIL,
     "control group system.slice/slurmd.service: stopped by its quota in 100 % of 400 periods, expected "
     "at most "
     "25 %"),
    # cgroup v1, whose controllers have folders of their own.
    ({"/sys/fs/cgroup/cpu,cpuacct/kubepods/cpu.stat": "nr_periods 400\nnr_throttled 300\nthrottled_time 9\n"},
     Status.FAIL,
     "control group kubepods: stopped by its quota in 75 % of 400 periods, expected at most 25 %"),
    ({"slurmd.service/cpu.stat": "nr_periods 400\n"}, Status.UNKNOWN, ""),
    ({"slurmd.service/cpu.stat": Outcome.DENIED}, Status.UNKNOWN, ""),
    ({"user.slice/cpu.stat": Outcome.DENIED, "system.slice/cpu.stat": quota(9000, 1000)}, Status.FAIL,
     "control group system.slice: stopped by its quota in 99 % of 1000 periods, expected at most 25 %"),
])
def test_a_control_group_that_its_quota_stops_is_named(
    now: dict[str, str | Outcome], status: Status, words: str,
) -> None:
    texts = {f"/sys/fs/cgroup/{path}" if path.startswith(("system", "user")) else path: text
             for path, text in now.items()}
    assert status_findings("cpu-quota", files("cpu.quota", texts), machine.recording()) == (status, words)


def test_a_node_on_which_no_group_has_a_quota_is_skipped() -> None:
    none = files("cpu.quota", {"system.slice/cpu.stat": "usage_usec 1\n"})
    assert verdict("cpu-quota", none, none).status is Status.SKIPPED


def test_without_an_earlier_look_throttling_is_skipped() -> None:
    assert verdict("cpu-throttled", machine.recording()).status is Status.SKIPPED


@pytest.mark.parametrize(("rule", "number"), [("cpu-count", "cpu_count"), ("numa-nodes", "numa_nodes")])
def test_a_sku_that_declines_the_number_is_not_judged_by_it(rule: str, number: str) -> None:
    assert verdict(rule, machine.recording(), **{number: None}).status is Status.SKIPPED


def test_every_rule_of_the_file_is_in_a_table() -> None:
    assert (ids("cpu.yaml") | ids("numa.yaml") == {row[0] for row in (*FAILING, *RESTS_ON)}
            | {"fleet-microcode", "fleet-turbo", "fleet-cpu-frequency", "numa-rails", "numa-free"})


@pytest.mark.parametrize(("text", "numbers"),
                         [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("0", (0,)), ("7-7", (7,))])
def test_a_list_of_cpus_is_read(text: str, numbers: tuple[int, ...]) -> None:
    assert cpu_list(text) == numbers


@given(st.sets(st.integers(0, 400)))
def test_any_set_of_cpus_is_read_from_a_list_of_them(numbers: set[int]) -> None:
    assert set(cpu_list(",".join(map(str, sorted(numbers))))) == numbers


@given(st.text(st.sampled_from("0123456789,- \nax"), max_size=30))
def test_any_other_text_is_refused_and_not_guessed(text: str) -> None:
    try:
        found = cpu_list(text)
    except ValueError:
        return
    assert list(found) == sorted(set(found)) and all(0 <= number < 8192 for number in found)


@pytest.mark.parametrize("fact", ["cpus", "governors", "packages", "microcode", "numa_nodes", "affinity",
                                  "cpu_temperatures", "cpu_frequency",
                                  "cpu_ceiling", "turbo", "core_throttling", "cpu_quotas"])
@given(data=st.data())
def test_no_bytes_in_any_file_raise(fact: str, data: st.DataObject) -> None:
    value = build_fact(FACTS[fact], Captures(data.draw(spoilt(FACTS[fact].probes[0].id))))
    assert not isinstance(value, Unmeasured) or "could not be read from" not in value.reason


def test_microcode_that_only_root_may_read_is_unmeasured_and_without_any_it_is_not_supported() -> None:
    of = FACTS["microcode"]
    denied = build_fact(of,
                        Captures(files("cpu.microcode", {f"{CPU}/cpu0/microcode/version": Outcome.DENIED})))
    revision = reading(denied, "revision")
    assert isinstance(revision, Unmeasured) and "permission denied" in revision.reason
    without = build_fact(of, Captures(files("cpu.microcode", {f"{CPU}/cpu0/microcode/version": None})))
    assert reading(without, "revision") is UNSUPPORTED
