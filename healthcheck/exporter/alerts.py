"""Finds the recording and alert rules for Prometheus, in a checkout or an installed wheel,
and joins them into one file."""

from __future__ import annotations

from pathlib import Path

from healthcheck.config.rulesfolder import packaged


def folder() -> Path:
    """The folder of the rule files, one for each subject."""
    return packaged() / "prometheus"


def together() -> str:
    """All rule files as one: each is `groups:` and a list, and so is the whole."""
    parts = []
    for path in sorted(folder().glob("*.yaml")):
        head, _, body = path.read_text(encoding="utf-8").partition("groups:\n")
        parts.append(head + body)
    return "groups:\n" + "".join(parts)
