"""Every critical rule over GPUs fails where it should, passes where it should, and is UNKNOWN where it could
not measure, whether NVML or nvidia-smi was read. The rules are asked for: one that is new, and stands in no
table, fails here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from healthcheck.facts.gpu import NVML
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, Outcome, Recording
from provisioning.demo.build import build
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import after, verdict
from tests.healthcheck.facts import smidocs
from tests.scenarios.gpu_routes_expect import BY_NVML_ALONE, ELSEWHERE, EXPECTED, NUMBERS, Said
from tests.scenarios.gpu_routes_plant import ALL, FAULTY, SOUND, UNREAD, Says
from tests.testbed.collector import collect
from tests.testbed.memory import in_memory
from tests.testbed.require import require_fleet

BETWEEN_S = 600.0
GPUS = 8
DRIVER = next(driver for driver in smidocs.DRIVERS if driver.version == "580.173.02")
BOARD = replace(next(board for board in smidocs.BOARDS if "H100" in board.name),
                healthy={"summary": "Healthy", "bandwidth": "Full", "route_recovery_in_progress": "False",
                         "route_unhealthy": "False",
                         "access_timeout_recovery": "False", "incorrect_configuration": "None"})
CRITICAL = sorted(rule.id for rule in packagedrules.RULES.rules if rule.severity.value == "critical"
                  and not rule.checked.fleet
                  and NVML.id in {probe.id for probe in rule.probes})
JUDGED = [rule for rule in CRITICAL if not rule.startswith(tuple(ELSEWHERE))]
NO_NVML = Capture(Outcome.CRASHED, exit=-11)
Seen = tuple[Recording, int]


def test_every_critical_rule_over_gpus_has_a_case_of_each_kind_and_no_case_is_of_another_rule() -> None:
    assert set(JUDGED) == EXPECTED.keys() == FAULTY.keys() == UNREAD.keys()
    assert BY_NVML_ALONE.keys() | SOUND.keys() <= set(JUDGED)
    assert all(any(rule.startswith(name) for rule in CRITICAL) for name in ELSEWHERE)
    assert {rule for rule in JUDGED if not FAULTY[rule].smi and not FAULTY[rule].ends
            and FAULTY[rule].gpus == GPUS} == BY_NVML_ALONE.keys()


# ---- by NVML: the real reader over the simulated library. Cases share a node, a GPU each ----

@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    require_fleet()
    with in_memory(64) as name:
        yield Path(name)


@cache
def places(which: str) -> dict[str, tuple[int, int]]:
    """Of each case the node (by number) and the GPU that it has there. Cases of one subject follow each other
    and go to different nodes: a reason names three GPUs."""
    table = TABLES[which]
    alone = [rule for rule in sorted(table) if table[rule].alone]
    shared = [rule for rule in sorted(table) if not table[rule].alone]
    nodes = -(-len(shared) // (GPUS - 1))
    # GPU 0 is the other end of pairs.
    return {rule: (100 + number, 3) for number, rule in enumerate(alone)} | {
        rule: (number % nodes, number // nodes + 1) for number, rule in enumerate(shared)}


TABLES: Mapping[str, Mapping[str, Says]] = {"faulty": FAULTY, "sound": SOUND, "unread": UNREAD, "healthy": {}}
_LOOKS: dict[tuple[str, int], Capture] = {}


def look(which: str, node: int, folder: Path) -> Capture:
    """What the reader says on this node of the table's."""
    if (which, node) not in _LOOKS:
        lines: dict[str, str] = {}
        for rule, (at, gpu) in places(which).items():
            if at == node:
                lines |= TABLES[which][rule].node | {f"gpu.{gpu}.{key}": value
                                                     for key, value in TABLES[which][rule].nvml.items()}
        scenario, root = folder / "nvml", folder / "root"
        scenario.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        (root / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
        (root / "proc/driver/nvidia/version").write_text("NVRM version: ...\n")
        (root / "run").mkdir(exist_ok=True)
        env = {"MUSTER_NVML_SCENARIO": str(scenario), "LD_LIBRARY_PATH": str(build().folder)}
        _LOOKS[which, node] = collect([NVML], root, env=env,
                                      mark=f"{folder}-{which}-{node}").captures[NVML.id]
    return _LOOKS[which, node]


def by_nvml(which: str, rule: str, folder: Path) -> Seen:
    node, gpu = places(which).get(rule, (-1, 3))
    says = TABLES[which].get(rule, Says())
    capture = look(which if rule in TABLES[which] else "healthy", node, folder)
    return machine.recording(gpu_nvml=capture, service_nvidia=machine.services(**says.services)), gpu


# ---- by nvidia-smi: its log, where NVML has no answer ----

def by_smi(which: str, rule: str, folder: Path) -> Seen:
    del folder
    says, gpu = TABLES[which].get(rule, Says()), 3
    if says.ends is not None:
        exit_status, text = says.ends
    else:
        logs = [[(path, says.every.get(path, text)) for path, text in smidocs.elements(BOARD, DRIVER, index)]
                for index in range(says.gpus)]
        if says.smi:
            held = {path for path, _ in logs[gpu]}
            assert says.smi.keys() <= held | {ALL}, says.smi
            logs[gpu] = [(path, says.smi.get(ALL, says.smi.get(path, text))) for path, text in logs[gpu]]
        exit_status, text = 0, smidocs.printed(DRIVER, logs)
        for name, value in says.head.items():
            text = text.replace(f"<{name}>8<", f"<{name}>{value}<")
    capture = Capture(Outcome.DONE, exit=exit_status, seconds=2.0, bytes=len(text), text=text)
    return machine.recording(gpu_nvml=NO_NVML, gpu_smi=capture,
                             service_nvidia=machine.services(**says.services)), gpu


Route = Callable[[str, str, Path], Seen]
ROUTES: Mapping[str, Route] = {"nvml": by_nvml, "smi": by_smi}
PAIRS = [(rule, route) for rule in JUDGED for route in ROUTES if route == "nvml" or rule not in BY_NVML_ALONE]


def judged(rule: str, which: str, route: str, folder: Path) -> tuple[Result, int]:
    """The rule's result, ten minutes after the same node was healthy (or sound, as this rule needs it)."""
    seen, gpu = ROUTES[route](which, rule, folder)
    before, _ = ROUTES[route]("sound", rule, folder)
    return verdict(rule, after(seen, BETWEEN_S), before, **NUMBERS.get(rule, {})), gpu


def filled(text: str, gpu: int) -> str:
    return text.format(gpu=gpu)


@pytest.mark.parametrize(("rule", "route"), PAIRS)
def test_the_fault_is_found_on_its_gpu_and_on_no_other(rule: str, route: str, folder: Path) -> None:
    result, gpu = judged(rule, "faulty", route, folder)
    said: Said = EXPECTED[rule]
    assert result.status is Status.FAIL, result.reason
    assert {finding.subject for finding in result.findings} == {filled(said.subject, gpu)}
    assert all(said.words in f"{finding.observed}, expected {finding.expected}"
               for finding in result.findings), result.findings


@pytest.mark.parametrize(("rule", "route"), PAIRS)
def test_a_node_without_the_fault_passes(rule: str, route: str, folder: Path) -> None:
    result, _ = judged(rule, "sound", route, folder)
    assert result.status is Status.PASS, (result.reason, result.findings)


@pytest.mark.parametrize(("rule", "route"), PAIRS)
def test_what_was_not_read_is_unknown_and_says_of_which_gpu(rule: str, route: str, folder: Path) -> None:
    result, gpu = judged(rule, "unread", route, folder)
    assert result.status is Status.UNKNOWN, (result.status, result.findings)
    assert filled(EXPECTED[rule].unread, gpu) in result.reason


@pytest.mark.parametrize("rule", sorted(BY_NVML_ALONE))
def test_what_nvidia_smi_cannot_show_is_unknown_by_it_and_never_a_pass(rule: str, folder: Path) -> None:
    result, _ = judged(rule, "sound", "smi", folder)
    assert result.status is Status.UNKNOWN
