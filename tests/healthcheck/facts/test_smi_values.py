"""Counters of errors in nvidia-smi's log: totals of their kinds, old and new, and those of a divided GPU's
instances."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.facts.parsing import whole
from healthcheck.facts.smi_values import _ecc, _with_instances
from healthcheck.facts.smi_words import read_at

AT = "ecc_errors/volatile/"
COUNTED = "ecc_error_count/volatile_count/sram_uncorrectable"
ON, NONE = {"mig_mode/current_mig": "Enabled"}, {"na": True}


@pytest.mark.parametrize(("kind", "old", "gpu", "found"), [
    ("correctable", "single_bit", {"single_bit/total": "9", "dram_correctable": "1"}, {"ok": 9}),
    ("correctable", "single_bit", {"sram_correctable": "1", "dram_correctable": "2"}, {"ok": 3}),
    ("correctable", "single_bit", {"sram_correctable": "1"}, {"absent": AT + "dram_correctable"}),
    ("uncorrectable", "double_bit", {"sram_uncorrectable_parity": "1", "sram_uncorrectable_secded": "2",
                                     "dram_uncorrectable": "4"}, {"ok": 7}),
    ("uncorrectable", "double_bit", {"sram_uncorrectable": "1", "dram_uncorrectable": "4"}, {"ok": 5}),
    ("uncorrectable", "double_bit", {"sram_uncorrectable": "N/A", "dram_uncorrectable": "N/A"}, NONE),
])
def test_a_total_is_that_of_its_kind(kind: str, old: str, gpu: dict[str, str], found: dict[str, Any]) -> None:
    assert _ecc("volatile", kind, old)({AT + path: text for path, text in gpu.items()}) == found


def instances(*counts: str | None) -> dict[str, str]:
    """Instances of a divided GPU, each with its count or without any."""
    found = {}
    for number, count in enumerate(counts):
        at = f"mig_devices/mig_device[{number}]/"
        found |= {f"{at}index": str(number),
                  f"{at}fb_memory_usage/total": "1 MiB"} | ({} if count is None else {at + COUNTED: count})
    return found


@pytest.mark.parametrize(("gpu", "found"), [
    ({"own": "3", **ON, **instances("1", "2")}, {"ok": 3}), ({"own": "0", **ON, **instances("1")}, {"ok": 0}),
    ({"own": "N/A", **ON, **instances("1", "2")}, {"ok": 3}), ({"own": "N/A", **ON}, NONE),
    ({"own": "N/A", **ON, **instances("1", None)}, {"absent": "mig_devices/mig_device/" + COUNTED}),
    ({"own": "N/A", **ON, **instances("1", "ERR!")}, {"error": [999, "ERR!"]}),
    ({"own": "N/A", "mig_mode/current_mig": "Disabled", **instances("1")}, NONE),
    ({"own": "N/A", **instances("1")}, NONE),
    ({"own": "N/A", **ON, **instances("1"), "other/" + COUNTED: "7"}, {"ok": 1}),
    ({**ON, **instances("1")}, {"absent": "own"}),
])
def test_a_divided_gpu_without_a_count_of_its_own_has_that_of_all_its_instances(
        gpu: dict[str, str], found: dict[str, Any]) -> None:
    assert _with_instances(read_at(whole, "own"))(gpu) == found
