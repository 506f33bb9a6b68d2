"""What is not there, or empty, is unknown by itself: it accuses no one, and the rest is judged all the
same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from healthcheck.model.outcome import Status
from healthcheck.model.recording import Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import verdict

PASS, FAIL, UNKNOWN = Status.PASS, Status.FAIL, Status.UNKNOWN


def without(probe: str, path: str) -> Recording:
    """The healthy machine without this file."""
    seen = machine.recording()
    capture = seen.captures[probe]
    assert path in capture.files
    files = {name: file for name, file in capture.files.items() if name != path}
    return replace(seen, captures={**seen.captures, probe: replace(capture, files=files)})


def empty(probe: str, path: str, **texts: str) -> Recording:
    """The healthy machine with nothing in this file, and with other texts in some of its files."""
    seen = machine.recording()
    capture = seen.captures[probe]
    files = dict(capture.files)
    for name, text in {path: "\n", **texts}.items():
        files[name] = files[name]._replace(text=text)
    return replace(seen, captures={**seen.captures, probe: replace(capture, files=files)})


def of_gpus(sick: dict[str, object], *, count: bool = True, index: bool = True) -> Recording:
    """GPU 2 with these readings; without the driver's count, or GPU 5 without its number."""
    lines = [json.loads(line) for line in machine.nvml(gpu2=sick).text.splitlines()]
    if not count:
        del lines[0]["count"]
    if not index:
        del lines[6]["index"]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return machine.recording(gpu_nvml=replace(machine.nvml(), text=text))


IB, NVME, MD = "/sys/class/infiniband/mlx5_3", "/sys/class/nvme/nvme3", "/sys/block/md0/md"
NUMA = "/sys/bus/pci/drivers/nvidia"
ECC = {"ecc_uncorrected": {"ok": 2}}
SAID = [
    ("hca-firmware", empty("hca.sysfs", f"{IB}/fw_ver"), PASS, "not supported: firmware of mlx5_3"),
    ("hca-firmware", empty("hca.sysfs", f"{IB}/board_id"), UNKNOWN, "board_id holds ''"),
    ("port-link-layer", empty("port.sysfs", f"{IB}/ports/1/link_layer"), UNKNOWN, "link_layer holds ''"),
    ("port-gid", without("port.sysfs", f"{IB}/ports/1/gids/0"), UNKNOWN, "gids/0 was not captured"),
    ("port-pkey", without("port.sysfs", f"{IB}/ports/1/pkeys/0"), UNKNOWN, "pkeys/0 was not captured"),
    ("hca-present", without("port.sysfs", f"{IB}/device/uevent"), UNKNOWN, "uevent was not captured"),
    ("disk-nvme-namespace", without("nvme.namespaces", f"{NVME}/nvme3n1/size"), UNKNOWN,
     "size was not captured"),
    ("disk-nvme-read-only", without("nvme.namespaces", f"{NVME}/nvme3n1/size"), PASS, ""),
    ("disk-nvme-state", empty("nvme.sysfs", f"{NVME}/transport", **{f"{NVME}/state": "dead\n"}), FAIL, ""),
    ("raid-state", empty("raid.md", f"{MD}/array_state"), UNKNOWN, "array_state holds ''"),
    ("raid-frozen", empty("raid.md", f"{MD}/sync_action"), UNKNOWN, "sync_action holds ''"),
    ("filesystem-lustre", empty("filesystem.lustre", "/sys/fs/lustre/health_check"), UNKNOWN,
     "health_check holds ''"),
    ("numa-affinity", empty("numa.devices", f"{NUMA}/0000:18:00.0/numa_node",
                            **{f"{NUMA}/0000:1b:00.0/numa_node": "-1\n"}), FAIL, "numa_node holds ''"),
    ("numa-affinity", empty("numa.devices", "/sys/devices/system/node/online"), UNKNOWN, "online holds ''"),
    ("gpu-ecc-uncorrected", of_gpus(ECC, count=False), FAIL, "the number of GPUs was not read"),
    ("gpu-ecc-uncorrected", of_gpus({}, count=False), UNKNOWN, "the number of GPUs was not read"),
    ("gpu-ecc-uncorrected", of_gpus(ECC, index=False), FAIL, "NVML lists 8 GPUs, but 7 were read"),
    ("gpu-ecc-uncorrected", of_gpus({}, index=False), UNKNOWN, "NVML lists 8 GPUs, but 7 were read"),
]


@pytest.mark.parametrize(("rule", "seen", "status", "reason"), SAID,
                         ids=[f"{rule} {status.value} {reason}" for rule, _, status, reason in SAID])
def test_one_reading_that_is_not_there_is_unknown_by_itself(rule: str, seen: Recording, status: Status,
                                                            reason: str) -> None:
    result = verdict(rule, seen)
    assert result.status is status, result
    assert reason in result.reason, result.reason
