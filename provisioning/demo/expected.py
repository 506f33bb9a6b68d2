"""What a sweep must find for each planted fault, by its name alone, however faults are planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ExpectedResult:
    """One result that must be there: rule, status, and a text in subject, observation or reason."""

    rule: str
    about: str
    status: str = "fail"


@dataclass(frozen=True)
class Expectation:
    """What a sweep must say of a node with one fault: its state, and results or the stage at which it was not
    reached. `later`: healthy until time has passed between two sweeps."""

    state: str
    message: tuple[ExpectedResult, ...] = ()
    stage: str | None = None
    later: bool = False


def _unreached(stage: str) -> Expectation:
    return Expectation("unknown", stage=stage)


def _critical(*message: ExpectedResult) -> Expectation:
    return Expectation("unhealthy", message)


def _warning(*message: ExpectedResult, later: bool = False) -> Expectation:
    return Expectation("degraded", message, later=later)


EXPECTED: Mapping[str, Expectation] = {
    "refused": _unreached("connect"), "silent": _unreached("connect"),
    "host-key-changed": _unreached("host key"), "host-key-unknown": _unreached("host key"),
    "login-hangs": _unreached("login"), "python-missing": _unreached("python"),
    "ecc-uncorrectable": _critical(ExpectedResult("gpu-ecc-uncorrected", "GPU ")),
    "gpu-lost": _critical(
        ExpectedResult("gpu-answers", "lost"), ExpectedResult("gpu-ecc-uncorrected", "lost", "unknown")),
    "gpu-missing": _critical(ExpectedResult("gpu-count", "PCI"), ExpectedResult("gpu-count", "7")),
    "port-down": _critical(ExpectedResult("port-state", "DOWN")),
    "port-slow": _critical(ExpectedResult("port-rate", "200 Gb/s")),
    "link-flapping": _warning(
        ExpectedResult("port-link-downed", "mlx5_4"), ExpectedResult("port-link-downed", "3"),
        ExpectedResult("port-flapping", "mlx5_4"), later=True),
    "disk-full": _critical(ExpectedResult("filesystem-space", "/: 100.0% used")),
    "inodes-full": _warning(ExpectedResult("filesystem-inodes", "/raid: 99")),
    "read-only": _critical(ExpectedResult("filesystem-read-only", "/: read-only")),
    "xid": _critical(ExpectedResult("kernel-xid", "Xid 79")),
    "hardware-error": _critical(ExpectedResult("kernel-hardware-error", "Hardware Error")),
    "kernel-drift": _warning(ExpectedResult("fleet-kernel", "6.5.0-1014-nvidia")),
    "driver-drift": _warning(
        ExpectedResult("fleet-driver", "550.54.15"), ExpectedResult("fleet-gsp", "550.54.15")),
    "clock-unsynchronised": _warning(ExpectedResult("host-clock-synchronised", "not synchronised")),
    "swap-on": _warning(ExpectedResult("host-swap", "8.0 GiB")),
    "memory-missing": _critical(ExpectedResult("host-memory", "memory")),
    "docker-down": _critical(ExpectedResult("docker-answers", "Cannot connect to the Docker daemon")),
    "docker-hangs": _critical(ExpectedResult("docker-hangs", "no answer in time to docker info"),
                              ExpectedResult("docker-answers", "docker", "unknown")),
    "hostile-bytes": _critical(
        ExpectedResult("kernel-xid", "Xid 48"), ExpectedResult("docker-answers", "owned"))}
HEALTHY = Expectation("healthy")


def compare(
    report: Mapping[str, Any], planted: Mapping[str, Sequence[str]], *, later: bool = False,
) -> list[str]:
    """What a muster.check document misses of what was planted (every node with its faults, none or one), and
    what it says beyond that: a line each. `later`: this is the second sweep, after some time. Raises KeyError
    for an unknown fault."""
    wrong: list[str] = []
    nodes: dict[str, Mapping[str, Any]] = {}
    for node in report["nodes"]:
        name = node["node"]
        if name in nodes:
            wrong.append(f"{name}: reported twice")
        elif name not in planted:
            wrong.append(f"{name}: reported, but there is no such node")
        nodes[name] = node
    for name, faults in planted.items():
        expectation = EXPECTED[faults[0]] if faults else HEALTHY
        if expectation.later and not later:
            expectation = HEALTHY
        title = f"{name} ({faults[0] if faults else 'healthy'})"
        if name in nodes:
            wrong.extend(f"{title}: {what}" for what in _compare_node(nodes[name], expectation))
        else:
            wrong.append(f"{title}: not reported")
    return wrong


def _compare_node(node: Mapping[str, Any], expectation: Expectation) -> list[str]:
    wrong = []
    if node["state"] != expectation.state:
        wrong.append(f"is called {node['state']}, expected {expectation.state}{_because(node)}")
    if expectation.stage is not None and not node["reason"].startswith(f"{expectation.stage}: "):
        wrong.append(f"missed: expected to fail at stage {expectation.stage}, reason is {node['reason']!r}")
    for message in expectation.message:
        if not any(_matches(result, message) for result in node["results"]):
            wrong.append(f"missed: expected {message.rule} to be {message.status} about {message.about!r}")
    accused = {message.rule for message in expectation.message if message.status == "fail"}
    wrong.extend(
        f"false accusation: {result['rule']} fails: {_observed_text(result)[:200]}"
        for result in node["results"] if result["status"] == "fail" and result["rule"] not in accused
        and result.get("severity") != "info"    # a word to the job's user, which accuses no node
    )
    return wrong


def _matches(result: Mapping[str, Any], message: ExpectedResult) -> bool:
    return (result["rule"] == message.rule and result["status"] == message.status
            and message.about in _observed_text(result))


def _observed_text(result: Mapping[str, Any]) -> str:
    found = [f"{finding['subject']}: {finding['observed']}" for finding in result["findings"]]
    return "; ".join([*found, *([result["reason"]] if result["reason"] else [])])


def _because(node: Mapping[str, Any]) -> str:
    """What keeps a node from being healthy, for the one who has to find out."""
    bad = (result for result in node["results"] if result["status"] in ("fail", "unknown"))
    reasons = [f"{result['rule']} {result['status']} {_observed_text(result)}" for result in bad]
    reason = "; ".join([node["reason"] or "", *reasons]).strip("; ")
    return f": {reason[:300]}" if reason else ""
