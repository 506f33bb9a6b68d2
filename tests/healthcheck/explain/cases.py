"""What the tests of `muster explain FILE` share: the composed files,
and a file's explanation without a process of its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.explain.explain import explain
from healthcheck.explain.model import Explained
from healthcheck.explain.page import page
from healthcheck.explain.recognise import opened_of
from healthcheck.joblog.messageload import load_messages
from healthcheck.joblog.messages import KnownMessage
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset

FOLDER = Path(__file__).resolve().parents[2] / "recordings/explain"
NOW = 1_795_000_000.0


@cache
def rules() -> Ruleset:
    return load_ruleset([packaged()])


@cache
def messages() -> tuple[KnownMessage, ...]:
    return load_messages([packaged()])


def explained(data: bytes | str, name: str = "file") -> Explained:
    """What is said of these bytes, or of the composed file of this name."""
    opened = opened_of((FOLDER / data).read_bytes(), data) if isinstance(data, str) else opened_of(data, name)
    return explain(opened, rules(), messages(), NOW)


def first_line(data: bytes | str) -> str:
    return page(explained(data)).split("\n", 1)[0]
