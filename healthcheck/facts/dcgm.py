"""The DCGM diagnostic's facts: the result of every test on every GPU, from `dcgmi diag -r LEVEL -j`.

Two shapes are read. DCGM 3 (dcgmi/Diag.cpp of v3.3.8): "DCGM GPU Diagnostic", results by `gpu_id`, and
Deployment tests with one result for all GPUs, whose errors are under the key `warnings`. DCGM 4
(dcgmi/Diag.cpp and testing/python3/dcgm_diag_schema.json of v4.6.0): "DCGM Diagnostic", results by entity,
and a summary for each test. Both leave out results of tests that did not run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from healthcheck.facts import gpu
from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.limits import DCGM_ERRORS
from healthcheck.facts.values import Fact, Partial, Unmeasured, Unread, changed, parted, reading
from healthcheck.model.probes import MIB, Effect, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean, short

# Level and outer limit in seconds, well above what NVIDIA's NVSentinel documents (half a minute, 2 minutes,
# 15 minutes, up to 2 hours): a diagnostic is known to hang (NVIDIA/DCGM issues 136 and 247). Even the quick
# one is not passive: it starts nvvs beside the host engine, which runs one diagnostic at a time, and leaves a
# process behind (issue 279). A child of the host engine loads the GPUs: dcgmi stops it on TERM (within 25 s),
# and does not when it is killed. So timeout(1) sends TERM first, and the probe's own limit comes after that.
LEVELS: Mapping[str, tuple[int, float]] = MappingProxyType({
    "quick": (1, 120.0), "medium": (2, 600.0), "long": (3, 3600.0), "xlong": (4, 10800.0),
})
DIAGNOSTICS: Mapping[str, Probe] = MappingProxyType({
    name: Probe(
        f"dcgm.diag_{name}", ProbeKind.COMMAND,
        argv=("timeout", "-k", "30", f"{seconds:g}", "dcgmi", "diag", "-r", str(level), "-j"),
        seconds=seconds + 45.0, limit=2 * MIB, effect=Effect.DISRUPTIVE,
    )
    for name, (level, seconds) in LEVELS.items()
})
# The same as messages call them: without timeout(1).
_CALLED = {probe.id: replace(probe, argv=("dcgmi diag",)) for probe in DIAGNOSTICS.values()}
# The first object, and those at the start of a line: a truncated document holds many smaller ones.
_OBJECT = re.compile(r"(?:\A[^{]*|^)(?=\{)", re.MULTILINE)
ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
# dcgmErrorSeverity_t of dcgm_errors.h, the same from v3.3.8 to v4.6.0.
SEVERITIES: Mapping[int, str] = MappingProxyType(
    {0: "none", 1: "monitor", 2: "isolate", 3: "unknown", 4: "triage", 5: "config", 6: "reset"})
STATUSES: Mapping[str, str] = MappingProxyType({"pass": "pass", "fail": "fail", "warn": "warn",
                                                "skip": "skip", "skipped": "skip"})
_BY_WEIGHT = ("pass", "skip", None, "warn", "fail")     # None: not measured
# The tests that run on every GPU, in the spellings of DCGM 4 and 3.
PER_GPU = frozenset({"memory", "gpu_memory", "pcie", "diagnostic", "sm_stress", "targeted_stress",
                     "targeted_power", "memory_bandwidth", "memtest", "pulse_test"})
# Exit statuses of timeout(1); dcgmi's own are those of dcgmReturn_t, negative and above these as a byte.
_ENDED: Mapping[int | None, str] = MappingProxyType({
    124: "did not end within {seconds} s, and was stopped",
    137: "did not end within {seconds} s, ignored the request to stop, and was killed",
    126: "cannot be executed", 127: "is not there",
})


@dataclass(frozen=True)
class DcgmError:
    """One error of a test in DCGM's words, with its dcgmError_t (-1 where none is given) and severity
    (`SEVERITIES`)."""

    words: str
    code: int
    severity: str


class DcgmTest(Fact):
    """One test on one device. `status` is pass, fail, warn or skip; `device` is "GPU 3", or "node" where DCGM
    names none."""

    name: str
    test: str
    device: str
    status: str
    errors: tuple[DcgmError, ...]
    info: str


class DcgmRun(Fact):
    """One run of the diagnostic. `listed` names the tests in its report, `caveat` those that DCGM skipped."""

    name: str
    version: str
    driver: str
    listed: tuple[str, ...]
    caveat: str


def document(text: str) -> dict[str, Any] | None:
    """The JSON object of a diagnostic in dcgmi's output, wherever it begins; None where none is complete."""
    for start in _OBJECT.finditer(text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start.end())
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and any(isinstance(value.get(root), dict) for root in ROOTS):
            return value
    return None


def _diagnostic(captures: Captures, probe: Probe) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole document and its root's content; raises Unread where the diagnostic has no result."""
    capture = captures.capture(probe)
    if capture is None or capture.outcome is not Outcome.DONE:
        raise Unread(why(_CALLED[probe.id], capture))
    if capture.exit in _ENDED:
        raise Unread(f"dcgmi diag {_ENDED[capture.exit].format(seconds=probe.argv[3])}")
    whole = document(capture.text)
    if whole is None:
        first = next((line for line in capture.text.splitlines() if line.strip()), "")
        output = clean(first or capture.stderr.strip() or "no output", 200)
        raise Unread(f"dcgmi diag gave no whole result (exit status {capture.exit}): {output}")
    root = next(whole[name] for name in ROOTS if isinstance(whole.get(name), dict))
    trouble = root.get("runtime_error") or root.get("error")
    if trouble:
        raise Unread(f"dcgmi diag did not run: {clean(trouble, 200)}")
    return whole, root


def _listed(whole: dict[str, Any]) -> dict[int, str]:
    """The GPUs that DCGM tested, by its own number, each with its serial number where it gives one."""
    found: dict[int, str] = {}
    for group in _dicts(whole.get("entity_groups")):
        if group.get("entity_group") == "GPU":
            for entity in _dicts(group.get("entities")):
                number = _number(entity.get("entity_id"))
                if number is not None:
                    found[number] = str(entity.get("serial_num") or "")
    serials, devices = whole.get("GPU Device Serials"), whole.get("GPU Device IDs")
    if isinstance(serials, dict):
        found.update((number, str(serial)) for key, serial in serials.items()
                     if (number := _number(key)) is not None)
    elif isinstance(devices, list) and not found:
        found = dict.fromkeys(range(len(devices)), "")
    return found


def _names(captures: Captures, listed: Mapping[int, str]) -> dict[int, str]:
    """Our name for each of DCGM's GPUs: with NVML's number where serial numbers match, else with DCGM's."""
    try:
        known, _ = parted(gpu.gpus(captures))
    except Unread:
        known = ()
    indices = {reading(each, "serial"): each.index for each in known}
    certain = (len(set(listed.values())) == len(listed)
               and all(serial in indices for serial in listed.values()))
    return {number: f"GPU {indices[serial] if certain else number}" for number, serial in listed.items()}


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        return int(value)
    return value if type(value) is int and 0 <= value < 100_000 else None


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _errors(value: object) -> tuple[DcgmError, ...]:
    found = []
    for item in value if isinstance(value, list) else ():
        if isinstance(item, str):
            found.append(DcgmError(clean(item), -1, "unknown"))
        elif isinstance(item, dict):
            words = item.get("warning") or item.get("warnings") or "no message"
            code, severity = item.get("error_id"), item.get("error_severity")
            known = SEVERITIES.get(severity, "unknown") if type(severity) is int else "unknown"
            found.append(DcgmError(clean(words), code if type(code) is int else -1, known))
    return tuple(found[:DCGM_ERRORS])


def _info(value: object) -> str:
    items = value if isinstance(value, list) else [value]
    return clean("; ".join(item for item in items if isinstance(item, str)), 400)


def _test(test: str, device: str, result: Mapping[str, Any], *,
          errors: tuple[DcgmError, ...] | None = None) -> DcgmTest:
    errors = _errors(result.get("warnings")) if errors is None else errors
    word = result.get("status")
    status: Any = STATUSES.get(word.lower()) if isinstance(word, str) else None
    if status is None:
        status = Unmeasured(f"DCGM gives it the status {short(word)}" if word else "DCGM gives it no status")
    elif status == "pass" and errors:
        # NVIDIA/DCGM issue 284: the memory test passes although it could not allocate what it was to test.
        status = Unmeasured(f"DCGM passes it, but reports an error: {errors[0].words[:200]}")
    return DcgmTest(f"{device} {test}", test=test, device=device, status=status, errors=errors,
                    info=_info(result.get("info")))


def _devices(result: Mapping[str, Any], names: Mapping[int, str], errors: int) -> list[str]:
    """The devices of one result; "node" where it names none, or one of several."""
    if "entity_id" in result:
        number, group = _number(result["entity_id"]), result.get("entity_group", "GPU")
        if number is None or not isinstance(group, str):
            return ["node"]
        return [names.get(number, f"GPU {number}") if group == "GPU" else f"{clean(group, 20)} {number}"]
    ids = result.get("gpu_id", result.get("gpu_ids"))
    numbers = [_number(part.strip()) for part in ids.split(",")] if isinstance(ids, str) else [_number(ids)]
    known = [names.get(number, f"GPU {number}") for number in numbers if number is not None]
    return known if known and (errors < 2 or isinstance(ids, str)) else ["node"]


def _results(test: Mapping[str, Any], names: Mapping[int, str], *, each_gpu: bool) -> Iterator[DcgmTest]:
    """Every result of one test; a GPU that DCGM tested and has no result is unmeasured."""
    name = clean(test.get("name") or "unnamed", 60).lower().replace(" ", "_")
    found = [_test(name, device, result) for result in _dicts(test.get("results"))
             for device in _devices(result, names, len(_errors(result.get("warnings"))))]
    yield from found
    on = {entry.device for entry in found}
    if each_gpu and (any(device.startswith("GPU ") for device in on) or (on and name in PER_GPU)):
        for device in names.values():
            if device not in on:
                gone: Any = Unmeasured("DCGM tested this GPU and gives no result")
                yield DcgmTest(f"{device} {name}", test=name, device=device, status=gone, errors=(), info="")
    value = test.get("test_summary")
    summary = value if isinstance(value, dict) else {}
    reported = {error for entry in found for error in entry.errors}
    own = tuple(error for error in _errors(summary.get("warnings")) if error not in reported)
    bad = ("fail", "warn")
    worse = (STATUSES.get(str(summary.get("status")).lower()) in bad
             and not any(reading(entry, "status") in bad for entry in found))
    if not found or own or worse:
        whole = _test(name, "node", summary, errors=own)
        if not found and reading(whole, "status") == "pass":
            # DCGM leaves out results of tests that did not run: then nothing passed, whatever the summary
            # says.
            nothing: Any = Unmeasured("DCGM passes it, but gives no result for any device")
            whole = changed(whole, status=nothing)
        yield whole


def _entries(
    whole: Mapping[str, Any], root: Mapping[str, Any], names: Mapping[int, str],
) -> Iterator[DcgmTest]:
    """Every result of every test."""
    for category in _dicts(root.get("test_categories")):
        # A deployment test of DCGM 3 covers all GPUs with one result.
        together = ROOTS[1] in whole and category.get("category") == "Deployment"
        for test in _dicts(category.get("tests")):
            yield from _results(test, names, each_gpu=not together)


def _tests(captures: Captures, probe: Probe) -> Any:
    whole, root = _diagnostic(captures, probe)
    listed = _listed(whole)
    names = _names(captures, listed)
    found: dict[str, DcgmTest] = {}
    for entry in _entries(whole, root, names):
        # Of two results of one test on one device, the worse.
        if entry.name not in found or _rank(entry) > _rank(found[entry.name]):
            found[entry.name] = entry
    if not found:
        raise Unread("dcgmi diag lists no test")
    tests = tuple(found.values())
    capture = captures.capture(probe)
    exit_status = capture.exit if capture is not None else None
    on = {entry.device for entry in tests if entry.device.startswith("GPU ")} | set(names.values())
    count = reading(gpu.gpu_presence(captures), "listed")
    if isinstance(count, int) and count > len(on):
        return Partial(tests, f"NVML lists {count} GPUs, and DCGM tested {len(on)}")
    if not listed and not isinstance(count, int):
        return Partial(tests, "DCGM does not say which GPUs it tested, and NVML was not read")
    if exit_status != 0 and not any(reading(entry, "status") in ("fail", "warn") for entry in tests):
        return Partial(tests, f"dcgmi ended with exit status {exit_status}, though no test failed")
    return tests


def _rank(entry: DcgmTest) -> int:
    status = reading(entry, "status")
    return _BY_WEIGHT.index(status if isinstance(status, str) else None)


def _run(captures: Captures, probe: Probe) -> DcgmRun:
    whole, root = _diagnostic(captures, probe)
    metadata = whole.get("metadata")
    about = metadata if isinstance(metadata, dict) else whole
    version, driver = (about.get(key) or root.get(key) for key in ("version", "Driver Version Detected"))
    skipped: dict[str, list[str]] = {}
    ran: dict[str, None] = {}
    names = _names(captures, _listed(whole))
    for entry in _entries(whole, root, names):
        ran[entry.test] = None
        if reading(entry, "status") == "skip":
            skipped.setdefault(entry.test, []).append(entry.device)
    caveat = ("DCGM skipped " + ", ".join(f"{test} ({len(on)}x)" for test, on in skipped.items())
              if skipped else "")
    unsaid: Any = Unmeasured("DCGM does not report it")
    return DcgmRun(
        " ".join(probe.argv[4:8]), version=clean(version, 60) if isinstance(version, str) else unsaid,
        driver=clean(driver, 60) if isinstance(driver, str) else unsaid, listed=tuple(ran),
        caveat=clean(caveat, 400),
    )


def _of(build: Callable[[Captures, Probe], Any], probe: Probe) -> Callable[[Captures], Any]:
    return lambda captures: build(captures, probe)


for _name, _probe in DIAGNOSTICS.items():
    fact(f"dcgm_tests_{_name}", _probe, gpu.NVML, gpu.PCI, each=f"dcgm_test_{_name}")(_of(_tests, _probe))
    fact(f"dcgm_run_{_name}", _probe, gpu.NVML, gpu.PCI)(_of(_run, _probe))
