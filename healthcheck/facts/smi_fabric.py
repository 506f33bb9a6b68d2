"""Readings of a GPU's place in an NVLink fabric and beside a CPU of its module, from nvidia-smi's log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.facts.parsing import matching, whole
from healthcheck.facts.smi_words import (
    NOTHING,
    NVML_WORDS,
    ON,
    Read,
    Reading,
    Texts,
    choice,
    read_at,
    release_in,
    value_at,
    word_of,
)

# nvml.h's nvmlGpuFabricState_t; one that is not supported is N/A.
_STATE = choice(not_started="not_started", in_progress="in_progress", completed="completed")
_SUMMARY = choice(healthy="healthy", unhealthy="unhealthy", limited_capacity="limited_capacity")


_uuid = matching(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def _of_fabric(read: Read) -> Read:
    """The reading of a GPU's fabric, which a GPU without one does not have, whatever its log leaves out."""

    def found(gpu: Texts) -> Reading:
        value = read(gpu)
        if "absent" in value and word_of(gpu.get("fabric/state", "")) in NOTHING:
            return {"na": True}
        return value

    return found


def _fabric_status(gpu: Texts) -> Reading:
    """The status of the GPU's fabric probe: here NVML's words are the value, unless they stand for the state
    as well."""
    state = value_at(gpu, ("fabric/state",), _STATE)
    if "error" in state:
        return state
    word = word_of(gpu.get("fabric/status", ""))
    if word in NVML_WORDS and word not in NOTHING:
        return {"ok": NVML_WORDS[word]}
    return value_at(gpu, ("fabric/status",), lambda text: NVML_WORDS[text])


# Each part of the fabric's health: its element, the release from which nvidia-smi prints it (None: only some
# builds of 580 do), its place in nvml.h's mask (NVML_GPU_FABRIC_HEALTH_MASK_*), and its words.
_FLAG = {"true": 1, "false": 2}
_HEALTH: tuple[tuple[str, int | None, int, Mapping[str, int]], ...] = (
    ("bandwidth", 550, 0, {"degraded": 1, "full": 2}),
    ("route_recovery_in_progress", 570, 2, _FLAG),
    ("route_unhealthy", 570, 4, _FLAG),
    ("access_timeout_recovery", 570, 6, _FLAG),
    ("incorrect_configuration", 580, 8, {
        "none": 1, "incorrect systemguid": 2, "incorrect sysguid": 2, "incorrect chassis serial number": 3,
        "no partition": 4,
        "insufficient nvlinks": 5, "insufficient nvlink resources": 5, "incompatible gpu firmware": 6,
        "invalid location": 7,
        "gpu state invalid": 8,
    }),
    ("partition_assigned", None, 12, _FLAG),
)
HEALTH_PARTS = tuple(name for name, *_ in _HEALTH)


def _fabric_health(gpu: Texts) -> Reading:
    """The mask that NVML would have returned. Parts that this version does not print are not supported."""
    mask = 0
    release = release_in(gpu)
    for name, since, shift, words in _HEALTH:
        found = value_at(gpu, (f"fabric/health/{name}",), lambda text: words[text.lower()])  # noqa: B023  (called at once)
        if "error" in found:
            return found
        if "absent" in found and since is not None and (release is None or release >= since):
            return found
        mask |= int(found.get("ok", 0)) << shift
    return {"ok": mask} if mask else {"na": True}


def _in_rack(name: str) -> Read:
    """Where in its chassis a GPU sits; 0 of one that sits in none, whose chassis' number is empty."""

    def found(gpu: Texts) -> Reading:
        value = value_at(gpu, (f"platformInfo/{name}",), whole)
        nowhere = gpu.get("platformInfo/chassis_serial_number") == ""
        return {"na": True} if "ok" in value and nowhere else value

    return found


def _c2c_mode(gpu: Texts) -> Reading:
    """Whether the links to a CPU of the same module are on. Drivers before 550 and the text of a log do not
    always have it; a GPU that is on no module with a Grace CPU has no such links."""
    mode = value_at(gpu, ("c2c_mode",), ON)
    return {"na": True} if "absent" in mode and "product_name" in gpu and not _beside_grace(gpu) else mode


def _beside_grace(gpu: Texts) -> bool:
    """Whether the GPU's name is that of a module with a Grace CPU (GH200, GB200, GB300)."""
    return re.search(r"\bG[HB][0-9]{3}\b", gpu.get("product_name", "")) is not None


def _c2c(key: str) -> Read:
    """A reading of those links, which nvidia-smi -q does not print and a GPU without them does not have."""

    def read(gpu: Texts) -> Reading:
        mode = _c2c_mode(gpu)
        none = "na" in mode or (mode.get("ok") == 0 and not _beside_grace(gpu))
        return {"na": True} if none else {"absent": key}

    return read


OF_C2C = ("c2c_links", "c2c_links_active", "c2c_crc_errors", "c2c_replays")
PLATFORM: Mapping[str, Callable[[str], Any]] = {
    "slot_number": whole, "tray_index": whole, "host_id": whole, "module_id": whole,
    "peer_type": choice(direct_connected="direct_connected", switch_connected="switch_connected"),
}
# By the NVML reader's keys.
FABRIC_READS: Mapping[str, Read] = {
    "fabric_state": read_at(_STATE, "fabric/state"),
    "fabric_status": _of_fabric(_fabric_status),
    "fabric_clique": _of_fabric(read_at(whole, "fabric/cliqueId")),
    "fabric_cluster": _of_fabric(read_at(lambda text: _uuid(text).lower(), "fabric/clusterUuid")),
    "fabric_health": _of_fabric(_fabric_health),
    "fabric_summary": _of_fabric(read_at(_SUMMARY, "fabric/health/summary")),
    "chassis_serial": read_at(str, "platformInfo/chassis_serial_number"),
    **{key: read_at(convert, f"platformInfo/{key}") for key, convert in PLATFORM.items()},
    "slot_number": _in_rack("slot_number"), "tray_index": _in_rack("tray_index"),
    "c2c_enabled": _c2c_mode,
    **{key: _c2c(key) for key in OF_C2C},
}
