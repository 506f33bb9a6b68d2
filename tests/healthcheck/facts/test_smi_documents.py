"""nvidia-smi's log in the forms of drivers 470 to 595, of GPUs from Pascal to Blackwell: each reading is what
the log says, in its unit; what a driver or a GPU does not have is unsupported; nothing is accused; and a log
with one element removed, doubled or overwritten by hostile text passes no rule that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts import smi_values
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.gpureadings import READINGS
from healthcheck.facts.smi_values import NOT_PRINTED
from healthcheck.facts.values import UNSUPPORTED, Fact, NotMeasured, Unmeasured, reading, readings
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, Outcome
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.facts import smidocs
from tests.healthcheck.facts.smidocs import Board, Driver
from tests.tries import tries

NO_NVML = Capture(Outcome.CRASHED, exit=-11)
DOCUMENTS = smidocs.documents()
MIB = 2**20


def seen(text: str) -> dict[str, Any]:
    """The facts of GPUs of a node where NVML has no answer and nvidia-smi prints this."""
    captures = Captures(machine.recording(
        gpu_nvml=NO_NVML, gpu_smi=Capture(Outcome.DONE, exit=0, seconds=2.0, bytes=len(text), text=text)))
    return {name: build_fact(FACTS[name], captures) for name in ("gpus", "gpu_presence")}


@cache
def facts(name: str) -> dict[str, Any]:
    return seen(smidocs.document(*DOCUMENTS[name]))


def gpu_of(name: str) -> Gpu:
    (gpu,) = facts(name)["gpus"]
    assert isinstance(gpu, Gpu)
    return gpu


# What of the log is not to be had of older drivers, although NVML has it: these are unmeasured.
WANTING: Mapping[str, int] = {
    "architecture": 510, "memory_used_bytes": 510, "part_number": 525, "fabric_clique": 550,
    "fabric_cluster": 550,
    "slowdown_power_ns": 575,
}


def number(value: int | None) -> Any:
    return UNSUPPORTED if value is None else value


def expected(driver: Driver, board: Board) -> Iterator[tuple[str, Any]]:
    """Fields of the GPU and what they must be: a value, UNSUPPORTED or Unmeasured."""
    release, old = driver.release, board.generation == smidocs.OLD
    margins = board.generation >= smidocs.ADA and release >= 550
    heat = (UNSUPPORTED,) * 4 if margins else tuple(map(number, board.thresholds))
    limits = tuple(map(number, board.margins)) if margins else (UNSUPPORTED,) * 4
    for what, temperature, margin in zip(("shutdown", "slowdown", "memory_max", "gpu_max"), heat,
                                         limits, strict=True):
        yield f"temperature_{what}_c", temperature
        yield f"tlimit_{what}_c", margin
    yield from (("temperature_c", board.celsius), ("temperature_memory_c", number(board.memory_celsius)))
    yield from (("model", board.name), ("pci", "0000:18:00.0"), ("serial", "1650000000000"), ("minor", 0))
    yield from (("memory_bytes", board.mib * MIB),
                ("memory_used_bytes", 3 * MIB if release >= 510 else Unmeasured))
    yield from (("power_watts", board.watts), ("power_limit_watts", board.limit),
                ("power_limit_default_watts", board.limit))
    for field, value in zip(("clock_sm_mhz", "clock_sm_max_mhz", "clock_memory_mhz", "clock_memory_max_mhz"),
                            board.clocks, strict=True):
        yield field, value
    yield from (("clock_reasons", 1), ("utilization_percent", 0), ("persistence", True),
                ("compute_mode", "default"))
    yield from (("pcie_generation", board.generation_pcie), ("pcie_width", board.width), ("pcie_replays", 0))
    yield from (("ecc_enabled", True), ("ecc_pending", True), ("ecc_corrected", 3), ("ecc_uncorrected", 0),
                ("ecc_corrected_lifetime", 5))
    yield from (("sram_corrected", UNSUPPORTED if old else 1), ("dram_corrected", UNSUPPORTED if old else 2))
    yield from (("sram_uncorrected_lifetime", UNSUPPORTED if old else 0),
                ("dram_corrected_lifetime", UNSUPPORTED if old else 4))
    exceeded = False if board.generation >= smidocs.AMPERE and release >= 550 else UNSUPPORTED
    yield "sram_threshold_exceeded", exceeded
    repair = False if board.generation >= smidocs.AMPERE and release >= 580 else UNSUPPORTED
    yield from (("channel_repair_pending", repair), ("tpc_repair_pending", repair))
    rows = 0 if board.remaps else UNSUPPORTED
    yield from (("rows_uncorrected", rows), ("rows_failed", False if board.remaps else UNSUPPORTED),
                ("banks_low", rows))
    yield from (("banks_max", board.banks if board.remaps else UNSUPPORTED),
                ("rows_corrected_inactive", rows if release >= 590 else UNSUPPORTED))
    yield from (("pages_retired_corrected", 0 if board.retires else UNSUPPORTED),
                ("pages_pending", False if board.retires else UNSUPPORTED))
    yield "recovery_action", "none" if release >= 530 else UNSUPPORTED
    yield "gsp_firmware", driver.version if release >= 510 else UNSUPPORTED
    if board.tlimit is not None and (release >= 535 or 525 <= release < 530):
        yield "temperature_margin_c", board.tlimit
    for field, us in (("sw_thermal", 91), ("hw_thermal", 7), ("hw_power_brake", 5)):
        yield f"slowdown_{field}_ns", us * 1000 if release >= 575 else UNSUPPORTED
    yield "slowdown_power_ns", 39595000 if release >= 575 else Unmeasured
    fabric = board.fabric and release >= 525
    yield from (("fabric_state", "completed" if fabric else UNSUPPORTED),
                ("fabric_status", 0 if fabric else UNSUPPORTED))
    clique = (board.clique if release >= 550
              else (Unmeasured, Unmeasured)) if fabric else (UNSUPPORTED, UNSUPPORTED)
    yield from (("fabric_clique", clique[0]), ("fabric_cluster", clique[1]))
    yield "fabric_summary", board.healthy["summary"].lower() if "summary" in board.healthy else UNSUPPORTED
    yield "fabric_health", {"Healthy": 0x1AA}.get(board.healthy.get("summary", ""),
                                                  0x80 if board.healthy else UNSUPPORTED)
    here = release >= 570 and board.chassis[3] != "N/A"
    rack = here and board.chassis[0] != ""
    yield from (("chassis_serial", board.chassis[0] if rack else UNSUPPORTED),
                ("slot_number", int(board.chassis[1]) if rack else UNSUPPORTED))
    yield from (("tray_index", int(board.chassis[2]) if rack else UNSUPPORTED),
                ("host_id", 1 if here else UNSUPPORTED))
    yield "peer_type", board.chassis[4].lower().replace(" ", "_") if here else UNSUPPORTED
    yield "module_id", board.module if release >= 570 else UNSUPPORTED
    yield "c2c_enabled", {"Enabled": True,
                          "Disabled": False}.get(board.c2c, UNSUPPORTED) if release >= 550 else UNSUPPORTED


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_reading_is_what_the_log_says_in_its_unit(name: str) -> None:
    gpu = gpu_of(name)
    wrong = {}
    for field, value in expected(*DOCUMENTS[name]):
        found = reading(gpu, field)
        if not (isinstance(found, Unmeasured) if value is Unmeasured else found == value
                and type(found) is type(value)):
            wrong[field] = found, value
    assert wrong == {}
    assert gpu.answers is True


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_is_unmeasured_but_what_this_release_does_not_print_and_nvml_has(name: str) -> None:
    driver, board = DOCUMENTS[name]
    gpu = gpu_of(name)
    unread = {field for field, value in readings(gpu).items() if isinstance(value, Unmeasured)
              and READINGS[field][0] not in NOT_PRINTED}
    assert unread == {field for field, since in WANTING.items() if driver.release < since
                      and not (field.startswith("fabric_") and (not board.fabric or driver.release < 525))}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_which_power_draw_it_is_is_said(name: str) -> None:
    driver, board = DOCUMENTS[name]
    assert gpu_of(name).caveat.endswith("instantaneous one, as it has no average") is (driver.release >= 570
                                                                                       and not board.average)


# ---- what rules say of them ----

RULES = tuple(rule for rule in packagedrules.RULES.rules if not rule.checked.fleet
              and set(rule.checked.facts) <= {"gpus", "gpu_presence"}
              and not rule.disruptive)


def sku_of(board: Board) -> Sku:
    """A SKU of one of these GPUs."""
    known = packagedrules.RULES.skus["hgx-h100"]
    return replace(known, name=board.name, numbers={
        **known.numbers, "gpu_count": 1, "gpu_model": board.name, "gpu_memory_gib": board.mib / 1024,
        "mig": False, "ecc": True,
        "pcie_generation": board.generation_pcie, "pcie_width": board.width, "power_limit_watts": board.limit,
        "fabric": board.fabric,
    })


def judged(rule: Rule, found: Mapping[str, Any], board: Board) -> Result:
    return judge(replace(rule, left_out=""), NodeFacts({name: found[name] for name in rule.checked.facts}),
                 sku_of(board))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_rule_accuses_a_healthy_gpu_and_what_cannot_be_judged_is_what_the_log_lacks(name: str) -> None:
    driver, board = DOCUMENTS[name]
    found = {**facts(name), "gpu_presence": replace_count(facts(name)["gpu_presence"])}
    said = {rule.id: judged(rule, found, board) for rule in RULES if not rule.checked.trend}
    assert {rule: result.findings for rule, result in said.items() if result.status is Status.FAIL} == {}
    unknown = {rule for rule, result in said.items() if result.status is Status.UNKNOWN}
    lacking = {"nvlink-fabric-clique"} if board.fabric and 525 <= driver.release < 550 else set()
    # Of links to the CPU it says only whether they are on.
    assert unknown <= lacking | ({"gpu-c2c"} if board.c2c == "Enabled" else set())


def replace_count(presence: Fact) -> Fact:
    """The PCI bus of the test's machine has eight GPUs, the logs one."""
    return type(presence)(**{**readings(presence), "on_pci": 1})


# ---- one element changed ----

HOSTILE = ("ERR!", "[Unknown Error]", "Unknown Error", "GPU is lost", "[GPU requires reset]", "", " ", "-1",
           "0x10", "1e3", "nan",
           "99999999999999999999999999", "31 F", "31 K", "0.5 kW", "12 GiB", "12 MB", "16X", "٣",
           "Yes, No", "Enabledx",
           "&#27;[31m", "../../etc/passwd", "$(reboot)", "Requested functionality has been deprecated",
           "&lt;gpu&gt;", "a" * 300)
# Texts that are free: any word is a name.
FREE = frozenset({"uuid", "serial", "name", "part_number", "vbios", "inforom", "gsp_firmware", "architecture",
                  "chassis_serial"})


class Traced(dict[str, str]):
    """The texts of a GPU that remember which were asked for and there."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__(texts)
        self.asked: set[str] = set()

    def get(self, path: str, default: Any = None) -> Any:
        if path in self:
            self.asked.add(path)
        return super().get(path, default)


class Watched:
    """A fact that remembers which of its fields a check read."""

    def __init__(self, fact: Gpu) -> None:
        self.fact, self.fields = fact, set[str]()

    def __getattr__(self, field: str) -> Any:
        self.fields.add(field)
        return getattr(self.fact, field)


@cache
def paths_of(name: str) -> dict[str, frozenset[str]]:
    """The elements from which each field is read in this log."""
    driver, board = DOCUMENTS[name]
    texts = {**dict(smidocs.elements(board, driver)), "@release": str(driver.release)}
    fields = {key: field for field, (key, *_) in READINGS.items()}
    found = {}
    for key, read in smi_values._READS.items():
        traced = Traced(texts)
        read(traced)
        found[fields[key]] = frozenset(traced.asked - {"@release"})
    # The instantaneous draw stands in for an average, and the other way about; nothing judges the partition's
    # part.
    instead = ("gpu_power_readings/instant_power_draw" if board.average
               else "gpu_power_readings/average_power_draw")
    found["power_watts"] -= {instead}
    found["fabric_health"] -= {"fabric/health/partition_assigned"}
    return found


@cache
def fields_of(rule_id: str, name: str) -> frozenset[str]:
    """The fields that the rule read of this healthy GPU."""
    rule = next(rule for rule in RULES if rule.id == rule_id)
    watched = Watched(gpu_of(name))
    try:
        list(rule.checked.function(watched, **rule.values(sku_of(DOCUMENTS[name][1]))))
    except Exception as error:      # noqa: BLE001  (a refusal ends a check; what it read before, it read)
        assert isinstance(error, NotMeasured) or "support" in str(error) or "judged" in str(error), error
    return frozenset(watched.fields)


ONE_BY_ONE = tuple(rule for rule in RULES if rule.checked.each == "gpus" and not rule.checked.trend)
Change = Sequence[tuple[str, str]]


def removed(elements: Change, path: str) -> Change:
    return [(at, text) for at, text in elements if at != path and not at.startswith(f"{path}/")]


def doubled(elements: Change, path: str) -> Change:
    twice = [(at, text) for at, text in elements if at == path or at.startswith(f"{path}/")]
    last = max(n for n, (at, _) in enumerate(elements) if at == path or at.startswith(f"{path}/"))
    # A block that is closed and opened again is there twice.
    between = [("fan_speed", "N/A")] if twice[0][0] != path else []
    return [*elements[:last + 1], *between, *twice, *elements[last + 1:]]


def overwritten(elements: Change, path: str, text: str) -> Change:
    first = min(n for n, (at, _) in enumerate(elements) if at == path or at.startswith(f"{path}/"))
    rest = removed(elements, path)
    before = len(removed(elements[:first], path))
    return [*rest[:before], (path, text), *rest[before:]]


def passing(name: str, elements: Change, path: str) -> list[str]:
    """The rules that read this element, or one in this block, and pass over the changed log of two GPUs, of
    which the second is changed."""
    driver, board = DOCUMENTS[name]
    found = seen(smidocs.printed(driver, [smidocs.elements(board, driver, 1), elements]))
    return [rule.id for rule in reading_of(name, path) if judged(rule, found, board).status is Status.PASS]


@cache
def reading_of(name: str, path: str) -> tuple[Rule, ...]:
    """The rules that read this element, or one in this block."""
    touched = {field for field, paths in paths_of(name).items()
               if any(at == path or at.startswith(f"{path}/") for at in paths)}
    return tuple(rule for rule in ONE_BY_ONE if fields_of(rule.id, name) & (touched - FREE))


@cache
def places(name: str) -> list[str]:
    """Every element and block of the log."""
    held = [path for path, _ in smidocs.elements(*reversed(DOCUMENTS[name]))]
    return sorted({"/".join(path.split("/")[:depth]) for path in held
                   for depth in range(1, path.count("/") + 2)})


def changed(name: str, path: str, how: str, text: str = "[Unknown Error]") -> Change:
    driver, board = DOCUMENTS[name]
    elements = smidocs.elements(board, driver)
    # the instantaneous draw stands in for it, and is said to (test_smi)
    if how == "removed" and path != AVERAGE:
        return removed(elements, path)
    return doubled(elements, path) if how == "doubled" else overwritten(elements, path, text)


AVERAGE = "gpu_power_readings/average_power_draw"
WAYS = ("removed", "doubled", "overwritten")


@pytest.mark.parametrize("name", [
    pytest.param("595.91.07-Tesla-T4", marks=pytest.mark.slow), "580.173.02-NVIDIA-GB300"])
def test_a_log_with_any_element_removed_doubled_or_unread_passes_no_rule_that_reads_it(name: str) -> None:
    wrong = {(path, how): bad for path in places(name) if reading_of(name, path) for how in WAYS
             if (bad := passing(name, changed(name, path, how), path))}
    assert wrong == {}


@settings(deadline=None, max_examples=tries(150))
@given(st.data())
def test_any_log_with_any_element_removed_doubled_or_hostile_passes_no_rule_that_reads_it(
        data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(DOCUMENTS)))
    path = data.draw(st.sampled_from(places(name)))
    how = data.draw(st.sampled_from(WAYS))
    text = data.draw(st.sampled_from(HOSTILE)) if how == "overwritten" else "ERR!"
    assert passing(name, changed(name, path, how, text), path) == []


COUNT = "\t<attached_gpus>1</attached_gpus>\n"


@pytest.mark.parametrize("instead", ["", COUNT * 2, COUNT.replace("1", "ERR!"), COUNT.replace("1", ""),
                                     COUNT.replace("1", "-1")])
def test_a_log_that_does_not_count_its_gpus_passes_no_rule_over_them(instead: str) -> None:
    driver, board = DOCUMENTS["595.91.07-Tesla-T4"]
    found = seen(smidocs.document(driver, board).replace(COUNT, instead))
    assert {rule.id for rule in RULES if not rule.checked.trend
            and judged(rule, found, board).status is Status.PASS} == set()


def test_without_the_drivers_version_no_element_is_missing_because_the_driver_is_old() -> None:
    text = smidocs.document(*DOCUMENTS["515.105.01-Tesla-T4"])
    for version in ("", "<driver_version>[Unknown Error]</driver_version>",
                    "<driver_version>515.105.01</driver_version>" * 2):
        (gpu,) = seen(text.replace("<driver_version>515.105.01</driver_version>", version))["gpus"]
        assert isinstance(reading(gpu, "recovery_action"), Unmeasured)
        assert reading(gpu, "sram_threshold_exceeded") is UNSUPPORTED
