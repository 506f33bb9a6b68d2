"""`muster explain FILE`: what is wrong in a log, a bug report, a test's output or a recording;
offline and without an inventory."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import click

from healthcheck.cli.wrapping import echo
from healthcheck.ruleset.ruleset import Ruleset


def is_file(asked: str, ids: Collection[str]) -> bool:
    """Whether the argument names a file: `-`, a name with a slash,
    or an existing file that no rule is named after."""
    return asked == "-" or "/" in asked or (asked not in ids and Path(asked).exists())


def explain_file(path: str, ruleset: Ruleset, folders: Sequence[Path], fmt: str) -> int:
    """Prints the file's explanation and returns the exit code (healthcheck/help/results.md);
    raises UsageError for an unknown kind of file."""
    from healthcheck.explain.explain import explain, explain_folder
    from healthcheck.explain.page import document, page
    from healthcheck.explain.recognise import open_file
    from healthcheck.joblog.messageload import load_messages

    if Path(path).is_dir():
        explained = explain_folder(Path(path), ruleset)
    else:
        explained = explain(open_file(path), ruleset, load_messages(folders), time.time())
    if fmt == "json":
        click.echo(json.dumps(document(explained), indent=1))
    else:
        echo(page(explained))
    return explained.exit_code
