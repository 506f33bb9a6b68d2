"""Readings of nvidia-smi's log as their makers make them: what stands in the place of one that is not
printed, and what a GPU does not have."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.facts.parsing import whole
from healthcheck.facts.smi_fabric import _c2c, _in_rack, _of_fabric
from healthcheck.facts.smi_words import TWICE, either, lacking, read_at, value_at

A, B = read_at(whole, "a"), read_at(whole, "b")
NONE = {"na": True}


@pytest.mark.parametrize(("gpu", "found"), [
    ({"a": "1", "b": "2"}, {"ok": 1}), ({"b": "2"}, {"ok": 2}), ({"a": "N/A", "b": "2"}, NONE),
    ({}, {"absent": "a"}),
])
def test_a_second_element_is_read_only_where_the_first_is_not_printed(gpu: dict[str, str],
                                                                      found: dict[str, Any]) -> None:
    assert either(A, B)(gpu) == found


@pytest.mark.parametrize(("gpu", "found"), [
    ({"a": "1", "c": "x"}, {"ok": 1}), ({"b": "x"}, NONE), ({"c": "x"}, NONE), ({"d": "x"}, {"absent": "a"}),
    ({}, {"absent": "a"}),
])
def test_a_gpu_with_another_element_in_its_place_has_no_such_reading(gpu: dict[str, str],
                                                                     found: dict[str, Any]) -> None:
    assert lacking(A, "b", "c")(gpu) == found


def test_what_is_printed_twice_or_in_no_known_format_is_an_error_of_ours() -> None:
    assert value_at({"a": TWICE}, ("a",), whole) == {"error": [-1, "it prints a twice"]}
    assert value_at({"a": "x"}, ("a",),
                    whole) == {"error": [-1, "a is 'x', which is not in the documented format"]}


@pytest.mark.parametrize(("gpu", "found"), [
    ({"fabric/state": "N/A"}, NONE), ({"fabric/state": "N/A", "a": "1"}, {"ok": 1}),
    ({"fabric/state": "Completed"}, {"absent": "a"}), ({}, {"absent": "a"}),
])
def test_a_gpu_without_a_fabric_has_no_reading_of_one_that_its_log_leaves_out(gpu: dict[str, str],
                                                                              found: dict[str, Any]) -> None:
    assert _of_fabric(A)(gpu) == found


@pytest.mark.parametrize(("chassis", "slot", "found"), [
    ("", "0", NONE), ("1821325191344", "0", {"ok": 0}), ("N/A", "0", {"ok": 0}),
    ("", "x", {"error": [-1, "platformInfo/slot_number is 'x', which is not in the documented format"]}),
])
def test_a_gpu_whose_chassis_has_no_number_sits_in_no_slot(chassis: str, slot: str,
                                                           found: dict[str, Any]) -> None:
    assert _in_rack("slot_number")({"platformInfo/chassis_serial_number": chassis,
                                    "platformInfo/slot_number": slot}) == found


@pytest.mark.parametrize(("name", "mode", "found"), [
    ("NVIDIA H100 80GB HBM3", "Disabled", NONE), ("NVIDIA H100 80GB HBM3", "N/A", NONE),
    ("NVIDIA GB200", "N/A", NONE),
    ("NVIDIA H100 80GB HBM3", "Enabled", {"absent": "c2c_links"}),
    ("NVIDIA GB200", "Disabled", {"absent": "c2c_links"}),
    ("NVIDIA GH200 480GB", "Enabled", {"absent": "c2c_links"}),
    ("NVIDIA H100 80GB HBM3", "ERR!", {"absent": "c2c_links"}),
])
def test_links_to_a_cpu_are_not_measured_where_there_may_be_any(name: str, mode: str,
                                                                found: dict[str, Any]) -> None:
    assert _c2c("c2c_links")({"product_name": name, "c2c_mode": mode}) == found
