"""What facts are made of the captures in cases/*.yaml: one file for each module of facts.

A case names a fact, changes captures of the healthy machine (tests/healthcheck/machine.py), and holds what
the fact is then (see `unlike`):

    - case: a sentence
      fact: ports
      captures:
        bmc.log: the whole text
        gpu.nvml: {text: ..., outcome: timeout, exit: 1, seconds: 3.0, stderr: ..., note: ...}
        host.dimms: {change: {old: new}}        text that is replaced; it has to be there
        port.sysfs: {files: {mlx5_3/ports/1/state: "1: DOWN", /sys/new: text, fw_ver: {outcome: denied}}}
        disk.smart: null                        not captured
      host: {time: 1795262400.0}
      is: {mlx5_3 port 1: {state: DOWN}}

A file's path is the end of the paths that it changes, or a whole new one; null takes them away.

A case may also call a function of the module, with plain values; `is` is then what it returns, or the error:

    - case: a sentence
      call: oldest_record
      given: [the text]
      is: 0.0                                 or `ValueError: its words`, `Unread: its words`
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.cache import FactCache
from healthcheck.facts.values import Unread
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.ruleset import plugins
from tests.healthcheck import machine
from tests.healthcheck.facts.shown import shown, unlike

plugins.load()      # so that all facts are known, whatever rules are kept parsed
CASES = Path(__file__).with_name("cases")


def cases(kind: str) -> Iterator[Any]:
    """Each case of the files of facts, or of functions, with its file's name."""
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.load(path.read_text(), yaml.CSafeLoader):
            if kind in case:
                yield pytest.param(path.stem, case, id=f"{path.stem}: {case['case']}")


def captured(capture: Capture, change: Any) -> Capture:
    """The healthy capture with a case's changes."""
    change = {"text": change} if isinstance(change, str) else dict(change)
    text = capture.text
    for old, new in change.pop("change", {}).items():
        assert old in text, f"{old!r} is not in {text[:300]!r}"
        text = text.replace(old, new)
    files = dict(capture.files)
    for path, entry in change.pop("files", {}).items():
        changed = [known for known in files if known.endswith(path)]
        assert changed or path.startswith("/"), f"no file ends in {path}"
        for one in changed or [path]:
            if entry is None:
                del files[one]
            else:
                files[one] = FileCapture(Outcome.DONE, entry) if isinstance(entry, str) else FileCapture(
                    Outcome(entry["outcome"]), entry.get("text", ""))
    if "outcome" in change:
        change["outcome"] = Outcome(change["outcome"])
    return replace(capture, **{"text": text, "files": files, **change})


def recorded(case: Mapping[str, Any]) -> Recording:
    healthy = machine.recording()
    captures = dict(healthy.captures)
    for probe, change in case.get("captures", {}).items():
        if change is None:
            del captures[probe]
        else:
            captures[probe] = captured(captures.get(probe, Capture(Outcome.DONE, exit=0)), change)
    assert healthy.host is not None
    return replace(healthy, captures=captures, host=replace(healthy.host, **case.get("host", {})))


@pytest.mark.parametrize(("module", "case"), list(cases("fact")))
def test_a_fact_is_what_its_captures_say(module: str, case: Mapping[str, Any]) -> None:
    spec = FACTS[case["fact"]]
    assert spec.build.__module__.endswith(f".{module}"), f"{spec.name} is made in {spec.build.__module__}"
    recording, cache = recorded(case), FactCache()
    for captures in (Captures(recording), Captures(recording, cache), Captures(recording, cache)):
        found = shown(build_fact(spec, captures))
        assert list(unlike(case["is"], found, spec.name)) == []


@pytest.mark.parametrize(("module", "case"), list(cases("call")))
def test_a_function_of_facts_returns_what_is_right_for_a_text(module: str, case: Mapping[str, Any]) -> None:
    function = getattr(importlib.import_module(f"healthcheck.facts.{module}"), case["call"])
    try:
        found = shown(function(*case["given"]))
    except ValueError as error:
        found = f"ValueError: {error}"
    except Unread as error:
        found = f"Unread: {error}"
    assert list(unlike(case["is"], found, case["call"])) == []
