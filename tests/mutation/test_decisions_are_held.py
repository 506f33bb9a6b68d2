"""What decides on nodes is held by tests: a small change of it that no test notices is on a list, with the reason why it may be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mutation.code import _members
from tests.mutation.mutants import sites

HERE = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("survivors.yaml")
MODULES = ("breaker", "decide", "plan", "requalify")
LIMIT_S = 3600
Change = tuple[str, str, str, str]      # module, function, what is changed into what, and the line as it stands there


def listed() -> dict[Change, str]:
    """Changes that may go unnoticed, each with its reason."""
    return {(module, one["function"], what, one["line"]): one["reason"]
            for module, entries in yaml.safe_load(LISTED.read_text()).items() for one in entries for what in one["changes"]}


def changes(module: str) -> Iterator[Change]:
    """All that can be changed in a module."""
    path = HERE / "healthcheck" / "triage" / f"{module}.py"
    lines = path.read_text().splitlines()
    return ((module, function, what, lines[line - 1].strip()) for function, line, what in sites(path.read_text(), _members(path)))


def test_every_change_on_the_list_can_be_made_and_has_a_reason() -> None:
    possible = {change for module in MODULES for change in changes(module)}
    assert listed().keys() <= possible, "take these from the list: the code is another by now"
    assert all(len(reason) > 20 for reason in listed().values())


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60)
def test_every_small_change_of_what_decides_on_nodes_fails_a_test_or_is_listed_with_a_reason(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.mutation.code", str(tmp_path), "decisions", *MODULES], cwd=HERE, capture_output=True,
                          text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: Mapping[str, Any] = json.loads(done.stdout)
    assert "error" not in found, found.get("error")
    assert found["failed"] == []
    assert {one["where"].partition(".py:")[0] for one in found["changes"].values()} == set(MODULES)
    assert [one for one in found["changes"].values() if not one["noticed"] and _of(one) not in listed()] == []


def _of(one: Mapping[str, Any]) -> Change:
    module, _, rest = str(one["where"]).partition(".py:")
    return module, rest.partition(" ")[2], str(one["what"]), str(one["text"])
