"""The summary of a fleet's history as text, JSON (muster.summary/1) and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from healthcheck.accounting.forecast import InterruptionForecast
from healthcheck.accounting.summary import HeldTime, Rate, Summary, SummaryRow, Worst
from healthcheck.accounting.times import DurationStats
from healthcheck.report import forecast
from inventory.nodeset import fold
from inventory.text import clean, many
from inventory.times import ago, iso, minute

# A rule of thumb that Imbue's CTO had heard from others, as he said in the Latent Space podcast in 2024
# (latent.space/p/llm-training-2024); their own rate was lower.
FIELD = 3.0
FIELD_SOURCE = "a rule of thumb, latent.space/p/llm-training-2024"
_NAMED = 10
_HEADS = ("FAILURES", "NODES", "PER 100 NODES AND WEEK", "95%", "UNSEEN", "TO ISOLATE", "TO RETURN",
          "OUT OF SERVICE", "NOT ISOLATED", "STILL OUT")
DEFINITIONS = (
    "a failure: a node had a problem that the policy isolates for; what comes back within "
    "{apart:g} h is the same failure; its cause is the most urgent fault present",
    "node-weeks: from a node's first snapshot to its newest, without gaps of over {fresh:g} h between sweeps "
    "and without time at the vendor's; the store does not record lifecycles, so a node in service now counts "
    "as always in service",
    "unseen: from the sweep before to the first one that saw it; the failure began in between, so time to "
    "detect is at most this and about half of it on average",
    "to isolate: from the first sweep that saw it to muster's cordon; without nodes isolated before, by "
    "others, or never",
    "to return: from that cordon to the last release by muster, over all holds of the failure; without nodes "
    "still out or released behind muster's back, so it is too short while nodes are out",
    "out of service: hours in which muster's cordons held the node for the failure, all of them together and "
    "until now where one lasts; if a node given back is held again by triage within {apart:g} h, or a person "
    "takes it over, that is the same failure; no hour counts twice",
    "95%: the exact interval of a Poisson count (Garwood 1936); failures that cause each other make the true "
    "interval wider",
)


def text(found: Summary, away: Mapping[str, str], definitions: Iterable[str],
         job: InterruptionForecast | None = None) -> Iterator[str]:
    """The summary, line by line. `away` are the nodes that are not in service by the inventory,
    with their lifecycle; `job` is what a job has to expect."""
    total = found.total
    weeks = total.rate.node_weeks
    yield f"since {minute(found.since)}: {many(found.nodes, 'node')}, {weeks:,.1f} node-weeks"
    if total.rate.per_100_week is None:
        yield f"{many(total.rate.failures, 'failure')}; no rate without time between sweeps"
    else:
        yield (f"{many(total.rate.failures, 'failure')} of {many(total.nodes, 'node')}: "
               f"{total.rate.per_100_week:.2f} per 100 nodes and week (95%: {total.rate.low:.2f} to "
               f"{total.rate.high:.2f})")
        weekly = found.weekly
        yield (f"in a week {weekly.per_100_week:.2f}% of the nodes had one (95%: {weekly.low:.2f} to "
               f"{weekly.high:.2f}); in the field about {FIELD:g}% ({FIELD_SOURCE}): {_versus_field(weekly)}")
    left = [f"{number} {words}"
            for number, words in ((found.first, "present at a node's first snapshot"),
                                  (found.shared, "in incidents, not the node's own"),
                                  (found.changed, "came with a change of rules, SKU, policy or muster"),
                                  (found.outside, "outside counted time")) if number]
    if left:
        yield f"in no rate: {', '.join(left)}"
    if found.interval.median is not None:
        yield f"a sweep of most nodes every {ago(found.interval.median)} (median)"
    for name, rows in found.tables.items():
        yield ""
        yield from _table(name, rows)
    yield ""
    yield _worst(found.worst)
    yield _out(found)
    if found.held.total:
        yield _held(found.held)
    states: dict[str, list[str]] = {}
    for node, state in away.items():
        states.setdefault(state, []).append(node)
    for state, nodes in sorted(states.items()):
        yield f"not in service, and not counted: {fold(nodes)} ({state})"
    if job is not None:
        yield ""
        yield from forecast.text(job, found.shared)
    yield ""
    yield from definitions


def definitions(apart_hours: float, fresh_hours: float) -> list[str]:
    """The definitions of the numbers."""
    return [line.format(apart=apart_hours, fresh=fresh_hours) for line in DEFINITIONS]


def _versus_field(weekly: Rate) -> str:
    low, high = weekly.low or 0.0, weekly.high or 0.0
    if low > FIELD:
        return "this fleet's is higher"
    return "this fleet's is lower" if high < FIELD else "too few failures to tell, or it is the same"


def _table(name: str, rows: Iterable[SummaryRow]) -> Iterator[str]:
    cells = [(name.upper(), *_HEADS), *(_cells(row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(row: SummaryRow) -> tuple[str, ...]:
    rate = row.rate
    known = rate.per_100_week is not None
    return (clean(row.key, 60) or "(none)", str(rate.failures), str(row.nodes),
            f"{rate.per_100_week:.2f}" if known else "-",
            f"{rate.low:.2f} to {rate.high:.2f}" if known else "-", _spread(row.unseen, "<= "),
            _spread(row.isolate), _spread(row.back), _hours(row.held),
            str(row.already + row.never), str(row.out))


def _spread(times: DurationStats, bound: str = "") -> str:
    if times.mean is None or times.median is None:
        return "-"
    return f"{bound}{ago(times.mean)}, median {ago(times.median)} ({times.count})"


def _hours(times: DurationStats) -> str:
    """All of them together, and the usual one."""
    if times.mean is None or times.median is None:
        return "-"
    return f"{times.mean * times.count / 3600:,.1f} h, median {ago(times.median)} ({times.count})"


def _worst(worst: Worst) -> str:
    if worst.share is None:
        return "repeat offenders: nothing failed"
    named = ", ".join(f"{node} ({number})" for node, number in worst.again[:_NAMED])
    more = f" and {len(worst.again) - _NAMED} more" if len(worst.again) > _NAMED else ""
    return (f"repeat offenders: the worst 10% of nodes ({worst.nodes}) had {worst.share:.0%} of the failures "
            f"(by chance alone {worst.by_chance:.0%}); nodes that failed twice or more had "
            f"{worst.share_again:.0%} (by chance {worst.again_by_chance:.0%}): {named or 'none'}{more}")


def _held(time: HeldTime) -> str:
    parts = ((time.failures, "for these failures"), (time.incidents, "in incidents"),
             (time.other, "for earlier failures or other reasons"))
    return (f"out of service by muster in this time: {time.total / 3600:,.1f} node-hours: "
            + ", ".join(f"{seconds / 3600:,.1f} {words}" for seconds, words in parts if seconds >= 1))


def _out(found: Summary) -> str:
    nodes = {held.node for held in found.out}
    if not nodes:
        return "out of service now: none by muster"
    first = min(held.began for held in found.out)
    return (f"out of service now: {many(len(nodes), 'node')} by muster: {fold(nodes)}, the first since "
            f"{minute(first)}")


def document(found: Summary, away: Mapping[str, str], definitions: Iterable[str],
             job: InterruptionForecast | None = None) -> dict[str, Any]:
    """The summary as one JSON document; durations in seconds."""
    return {
        "schema": "muster.summary/1", "since": iso(found.since), "until": iso(found.now),
        "nodes": found.nodes, "failures": _line(found.total), "nodes_failing": asdict(found.weekly),
        "field": {"nodes_per_100_week": FIELD, "source": FIELD_SOURCE}, "left_out": {
            "at_first_look": found.first, "in_incidents": found.shared,
            "with_a_change": found.changed, "outside_counted_time": found.outside},
        "sweep_interval": asdict(found.interval),
        "by": {name: [_line(row) for row in rows] for name, rows in found.tables.items()},
        "worst": {"nodes": found.worst.nodes, "share": found.worst.share, "by_chance": found.worst.by_chance,
                  "share_again": found.worst.share_again, "again_by_chance": found.worst.again_by_chance,
                  "again": [{"node": node, "failures": number} for node, number in found.worst.again]},
        "held_seconds": asdict(found.held),
        "out_now": [{"node": held.node, "since": iso(held.began)} for held in found.out],
        "not_in_service": dict(away), "definitions": list(definitions),
        "forecast": forecast.document(job) if job is not None else None,
    }


def as_csv(found: Summary) -> str:
    """A line for each row of each table, and a total."""
    written = io.StringIO()
    rows = [{"by": name, **_flat(_line(row))}
            for name, table in (("all", (found.total,)), *found.tables.items()) for row in table]
    writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _line(row: SummaryRow) -> dict[str, Any]:
    return {"key": row.key, **asdict(row.rate), "nodes": row.nodes, "unseen": asdict(row.unseen),
            "isolate": asdict(row.isolate), "return": asdict(row.back), "already_isolated": row.already,
            "not_isolated": row.never, "still_out": row.out, "held": asdict(row.held)}


def _flat(line: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}_{inner}": number for inner, number in value.items()}
        else:
            # A spreadsheet takes such a start for a formula.
            flat[key] = f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
    return flat
