"""A node's place among those that share NVLinks, and where a person finds its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.nvlink_place import NO_CLUSTER, place_of, whereabouts
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, changed
from inventory.model import Node
from tests.healthcheck import machine

CLUSTER = "5cd30dc8-4cb0-4f8a-9c5e-000000000003"
GPUS: tuple[Gpu, ...] = tuple(
    changed(gpu, fabric_cluster=CLUSTER, chassis_serial="1821325191344", tray_index=7,
            module_id=gpu.index + 1)
    for gpu in build_fact(FACTS["gpus"], Captures(machine.recording()))[:4])
TRAY = Node("r3-07", rack="r3", nvlink_domain="d3", labels={"nvlink_partition": "a"})


def gpus(**fields: Any) -> tuple[Gpu, ...]:
    """The four GPUs, all with these changes."""
    return tuple(changed(gpu, **fields) for gpu in GPUS)


def test_a_place_is_the_inventorys_words_and_the_cluster_of_most_gpus() -> None:
    place = place_of(TRAY,
                     (changed(GPUS[3], fabric_cluster="5cd30dc8-4cb0-4f8a-9c5e-0000000000ff"), *GPUS[:3]))
    assert (place.domain, place.partition, place.rack, place.cluster) == ("d3", "a", "r3", CLUSTER)
    assert place_of(Node("n"), GPUS) == changed(place, domain="", partition="", rack="")
    assert place_of(TRAY, Partial(GPUS[:1], "cut")).cluster == CLUSTER


@pytest.mark.parametrize("found", [
    (), None, Unmeasured("no driver"), gpus(fabric_cluster=NO_CLUSTER), gpus(fabric_state="in_progress"),
    gpus(fabric_cluster=UNSUPPORTED),
    gpus(fabric_state=Unmeasured("hung")),
])
def test_gpus_that_joined_no_cluster_that_spans_nodes_have_none(found: Any) -> None:
    assert place_of(TRAY, found).cluster == ""


def test_a_gpu_is_found_by_rack_tray_chassis_and_module() -> None:
    assert whereabouts(TRAY, GPUS)[2] == ("rack r3, tray 7 of chassis 1821325191344", 3)
    assert whereabouts(Node("n"),
                       gpus(chassis_serial=UNSUPPORTED, module_id=UNSUPPORTED))[0] == ("tray 7", None)


def test_a_gpu_that_knows_no_tray_is_nowhere() -> None:
    assert whereabouts(TRAY, (*gpus(tray_index=UNSUPPORTED), *gpus(tray_index=Unmeasured("hung")))) == {}
    assert whereabouts(TRAY, Unmeasured("no driver")) == {}
