"""`muster baseline explain`: how a baseline and the catalogue of known faults judge one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli.baselinereview import loaded, today
from healthcheck.cli.options import CATALOGUE
from healthcheck.kernellog.masking import nearest, template
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from healthcheck.baseline.catalogue import Catalogue
    from healthcheck.kernellog.model import Baseline


@click.command()
@click.argument("baseline", metavar="B")
@click.argument("line", metavar="LINE")
@CATALOGUE
@formats()
def explain(baseline: str, line: str, rules: str | None, fmt: str) -> int:
    """Show LINE's template, whether the catalogue of known faults or baseline B has it, since when,
    and who approved it.

    LINE is as in dmesg, journalctl or a finding, with or without its time.

    \b
    muster baseline explain h100.yaml '[    7.642] cfg80211: failed to load regulatory.db'

    Exit: 0 a line of healthy nodes, 1 a known fault or a line that B does not accept, 2 usage.
    """
    from healthcheck.baseline.learn import current

    held, catalogue = loaded(baseline, rules)
    result = _explained(_text(line), current(held, today()), catalogue)
    if fmt == "json":
        click.echo(json.dumps({"schema": "muster.baseline/1", "baseline": held.file, **result}, indent=1))
    else:
        rows = [(key, value) for key, value in result.items() if value not in (None, "", [])]
        for key, value in rows:
            click.echo(f"{key.replace('_', ' '):<10} "
                       f"{clean(', '.join(value) if isinstance(value, list) else value, 400)}")
    return 0 if result["verdict"].startswith("healthy") else 1


def _text(line: str) -> str:
    """The message, without the time and names before it."""
    from healthcheck.baseline.formats import read

    logs = read(line.encode("utf-8", "surrogateescape") + b"\n", "LINE")
    texts = [held.text for log in logs for held in log.lines]
    if len(texts) != 1:
        raise UsageError(f"{short(line)}: expected one line of a kernel log, got {len(texts)}")
    return texts[0]


def _explained(text: str, held: Baseline, catalogue: Catalogue) -> dict[str, Any]:
    from healthcheck.baseline.approval import short_id
    from healthcheck.baseline.flags import flags

    made = template(text)
    fault = catalogue.find(text)
    result: dict[str, Any] = {"text": text, "template": made, "id": short_id(made)}
    if fault is not None:
        return result | {"verdict": f"known fault {fault.id} ({fault.severity.value}), whatever a baseline "
                                    "says", "meaning": fault.meaning, "remedy": fault.remedy}
    one = held.known.get(made) or held.expired.get(made) or held.proposed.get(made)
    if one is None:
        return result | {"verdict": "novel: no node of this baseline has said it",
                         "nearest": nearest(made, held.known)}
    seen = {"seen": f"on {one.nodes} of {held.nodes} nodes, in {one.boots} of {held.boots} boots, "
                    f"{one.first_seen} to {one.last_seen}", "nodes": one.on or None, "example": one.example}
    if made in held.known:
        return result | {"verdict": "healthy nodes say it", "approved": f"by {one.by}: {one.why}", **seen}
    if made in held.expired:
        return result | {"verdict": f"expired: not seen for {held.expires_days} days, or in "
                                    f"{held.expires_boots} boots", "approved": f"by {one.by}: {one.why}",
                                    **seen}
    return result | {"verdict": "proposed: seen, and not approved",
                     "flags": list(flags(one, held.nodes, held.boots, catalogue)), **seen,
                     "nearest": nearest(made, held.known)}
