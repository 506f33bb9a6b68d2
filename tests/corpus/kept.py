"""Holds what was seen against what is kept in `expected/`; a difference is named by its place, with what to
type where it is meant."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).resolve().parent / "expected"
MEANT = (
    "Is a difference meant? Type MUSTER_GOLDEN=update .venv/bin/python -m pytest tests/corpus, read the diff "
    "of tests/corpus/expected, "
    "and list each changed state, finding, owner and exit code with its reason in the commit.")
_MOST = 40          # differences of one file


def same(name: str, seen: Mapping[str, Any]) -> None:
    """It is what is kept under this name; with MUSTER_GOLDEN=update it is kept from now on."""
    path = EXPECTED / f"{name}.json"
    found = json.loads(json.dumps(seen))
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.write_text(json.dumps(found, indent=1) + "\n")
    kept = json.loads(path.read_text()) if path.exists() else {}
    wrong = list(islice(differences(kept, found, path.name), _MOST))
    if wrong:
        raise AssertionError("\n".join(["not as it was:", *wrong, MEANT]))


def differences(kept: object, found: object, place: str) -> Iterator[str]:
    """A line for each place where the two differ."""
    if isinstance(kept, dict) and isinstance(found, dict):
        for key in sorted(kept.keys() | found.keys()):
            at = f"{place} > {key}"
            if key not in kept:
                yield f"{at}: has no expectation; it is {json.dumps(found[key])}"
            elif key not in found:
                yield f"{at}: is not there; it was {json.dumps(kept[key])}"
            else:
                yield from differences(kept[key], found[key], at)
    elif kept != found:
        yield f"{place}: is {json.dumps(found)}; it was {json.dumps(kept)}"
