"""The newest burn-in in the state folder, for the page: verdict, accusations, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from healthcheck.burnin import documentread
from healthcheck.burnin.document import Burnin, kept
from healthcheck.burnin.page import next_step, verdict_line
from healthcheck.burnin.svg import svg
from inventory.errors import MusterError
from inventory.nodeset import fold
from inventory.text import clean

_MOST_ACCUSED = 12
# What reading a document and drawing it may cost a page: 8 MB take about half a second.
_LARGEST_DOCUMENT, _LARGEST_PICTURE = 8 << 20, 400 << 10


def newest(state: Path) -> dict[str, Any] | None:
    """The newest burn-in; None where there is none. `trouble` says why it, or its picture, is not shown."""
    for path in kept(state, screenings=False)[:1]:
        try:
            size = path.stat().st_size
            if size > _LARGEST_DOCUMENT:
                return {"run": clean(path.name.partition(".burnin")[0], 80),
                        "trouble": f"its document has {size >> 20} MB, too many for this page"}
            return _shown(documentread.load(path))
        except MusterError as error:
            return {"run": clean(path.name, 80), "trouble": clean(error, 200)}
        except OSError:
            return None     # removed
    return None


def _shown(burnin: Burnin) -> dict[str, Any]:
    judged = burnin.judgement
    picture = _picture(burnin)
    return {
        "run": clean(burnin.run, 80), "length": burnin.length, "ended": burnin.ended,
        "verdict": judged.verdict.value, "words": verdict_line(burnin),
        "nodes": {one.node: one.outcome.value for one in judged.outcomes},
        "accused": [{"name": clean(one.name, 120), "fault": one.fault.replace("_", " "),
                     "confirmed": one.confirmed, "why": clean(one.why, 300),
                     "next": clean(next_step(one, burnin, fold), 4000)}
                    for one in judged.accusations[:_MOST_ACCUSED]],
        "more": max(0, len(judged.accusations) - _MOST_ACCUSED),
        "picture": picture if len(picture) <= _LARGEST_PICTURE else "",
        "trouble": "" if len(picture) <= _LARGEST_PICTURE else "the picture is too large for this page",
    }


def _picture(burnin: Burnin) -> str:
    """The picture of `muster burnin show --svg`; empty where no node was measured."""
    return svg(burnin) if burnin.judgement.outcomes else ""
