"""The punch list as one HTML page that needs nothing else: nothing is fetched; each owner has sheets. Every
text of a machine is escaped, and the page forbids a browser to run or fetch anything
(Content-Security-Policy), whatever is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from inventory.times import ago, minute
from provisioning.bringup.pages import report
from provisioning.bringup.pages.report import PunchListItem, PunchListSummary

_STYLE = Path(__file__).with_name("report.css").read_text()
_COLUMNS = ("", "Rack", "Place", "Machine", "Part", "Slot", "Serial", "Machine's serial", "Step", "Since",
            "What is wrong", "To do")


def html(lines: Sequence[PunchListItem], head: PunchListSummary) -> str:
    """The whole page; `lines` are ordered."""
    return "\n".join(_page(lines, head)) + "\n"


def _page(lines: Sequence[PunchListItem], head: PunchListSummary) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield ("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
           "'unsafe-inline'\">")
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>Punch list, {minute(head.now)}</title>"
    yield f"<style>{_STYLE}</style></head><body>"
    yield f"<h1>Punch list, {minute(head.now)}</h1>"
    yield f"<p>{escape(head.counts)}.</p>"
    if not lines:
        yield f"<p>{escape(report.empty(head))}</p>"
    for owner, mine in report.owned(lines):
        yield f'<section id="{owner.value}"><h2>{escape(report.title(owner, mine))}</h2>'
        yield f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in _COLUMNS)}</tr></thead><tbody>"
        for one in mine:
            yield _row(one, head.now)
        yield "</tbody></table></section>"
    yield "</body></html>"


def _row(one: PunchListItem, now: float) -> str:
    numbers = (one.rack, one.unit, one.node, one.part, one.slot, one.serial, one.machine_serial, one.step)
    cells = "".join(f'<td class="mono">{escape(text)}</td>' for text in numbers)
    since = f"{minute(one.since)}<br>{ago(now - one.since)}"
    return (f'<tr><td class="box">☐</td>{cells}<td>{since}</td><td>{escape(one.what)}</td>'
            f"<td>{escape(one.hand)}</td></tr>")
