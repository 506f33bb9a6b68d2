"""`muster change`: prove a change of driver, firmware, kernel or image on a canary before it spreads."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from healthcheck.change.document import judged, row
from healthcheck.change.model import SiteChange
from healthcheck.cli import completing
from healthcheck.cli.options import INVENTORY, RULES, STATE
from healthcheck.store.file import opened
from inventory.cli.chosen import who
from inventory.cli.formatted import as_json as format_option
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.nodeset import fold
from inventory.text import clean, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from healthcheck.change.model import Stood

_JSON = format_option("json: one JSON document.")
_SWEEP = click.option("--sweep", metavar="DIR",
                      help="Take snapshots from a sweep that muster check --save saved, with kernel logs."
                           " Default: the newest in the store.")
_DAY = 86400.0
_MOST_BURNIN_AGE = 30 * _DAY
_MOST_JUDGEMENTS = 50


@click.group()
def change() -> None:
    """Prove a change of driver, firmware, kernel or image on a canary before it spreads.

    It records what stands, compares the canary with controls after the change was made, and names the next
    ring after a pass. It acts on no node.

    \b
    muster check --save before
    muster change start driver-575 --nodes 'gpu[001-004]' --sweep before
    muster check --save after                      once the change was made on the canary
    muster change judge driver-575 --sweep after
    muster change next driver-575
    """


@change.command(short_help="Record what stands before a change.")
@click.argument("name")
@click.option("--nodes", metavar="NODES", required=True, shell_complete=completing.node_set,
              help="The canary: the nodes that get the change first.")
@click.option("--controls", metavar="NODES", shell_complete=completing.node_set,
              help="Nodes that keep what they have. Default: in service, of the canary's SKUs and racks.")
@click.option("--ring", "rings", metavar="NODES", multiple=True, shell_complete=completing.node_set,
              help="The nodes that follow; repeatable, in order. Default: rings that double in size.")
@click.option("--no-rings", is_flag=True, help="No node follows.")
@click.option("--without", metavar="KEY", multiple=True,
              help="Do not judge this: results, log, figures, or one as results/gpu-count (with * and ?); "
                   "repeatable, and named in each verdict.")
@click.option("--max-age", metavar="SPAN", callback=span(60, 30 * _DAY), default="1d", show_default=True,
              help="An older snapshot counts as none.")
@_SWEEP
@INVENTORY
@RULES
@STATE
@_JSON
def start(
    name: str, nodes: str, controls: str | None, rings: tuple[str, ...], no_rings: bool,
    without: tuple[str, ...], max_age: float, sweep: str | None, inventory: str | None, rules: str | None,
    state: str | None, as_json: bool,
) -> int:
    """Record under NAME what stands on canary and controls before a change is made: versions, check results,
    forms of kernel-log lines, and figures of burn-ins of the last 30 days.

    What was not measured is listed, and the change cannot pass without it.

    \b
    muster change start driver-575 --nodes @canary --sweep before
    muster change start bios-2.9 --nodes 'gpu[001-002]' --ring 'gpu[003-008]' --without figures

    Exit: 0 all was measured, 2 usage or no fresh snapshot, 3 something was not measured.
    """
    from healthcheck.change import keep, page
    from healthcheck.change.document import document
    from healthcheck.change.standing import too_old, with_figures
    from healthcheck.cli import changestart

    folder = state_dir(state)
    if keep.exists(folder, keep.checked(name)):
        raise UsageError(f"{name}: there is a change of that name; see: muster change show {name}")
    known = changestart.inventory(inventory)
    canary = changestart.selected(known, nodes, "--nodes")
    others, chosen = changestart.controls(name, canary, known, controls)
    if rings and no_rings:
        raise UsageError("--ring and --no-rings: give one of them")
    after = () if no_rings else changestart.rings(canary, known, rings)
    now = time.time()
    names = [node.name for node in (*canary, *others)]
    standing = too_old(_measured(sweep, names, folder, rules), now, max_age)
    fresh = [node.name for node in canary if not standing.nodes[node.name].missing]
    if not fresh:
        why = standing.nodes[canary[0].name].missing
        raise UsageError(f"no canary node has a fresh snapshot ({canary[0].name}: {short(why)}): "
                         "muster check --store, or muster check --save DIR and --sweep DIR")
    standing, troubles = with_figures(standing, folder, since=now - _MOST_BURNIN_AGE, until=now)
    made = SiteChange(name, clean(who(), 200), now, tuple(node.name for node in canary),
                      tuple(node.name for node in others), chosen, after,
                      tuple(changestart.left_out(one) for one in without), standing)
    keep.write(folder, made)
    _report(troubles)
    lacking = list(page.unmeasured(made, fold))
    if as_json:
        _print(document(made))
    else:
        _lines([*page.began(made, fold), page.last(made)])
    return 3 if lacking else 0


@change.command(short_help="Compare canary and controls, before and since.")
@click.argument("name", shell_complete=completing.changes)
@click.option("--made", is_flag=True,
              help="The change was made, though neither a version nor a new boot shows it.")
@_SWEEP
@RULES
@STATE
@_JSON
def judge(name: str, made: bool, sweep: str | None, rules: str | None, state: str | None,
          as_json: bool) -> int:
    """Judge the change NAME: what the canary shows now and did not before, beside what the controls show.

    Check results, new forms of kernel-log lines and figures of burn-ins each have their noise, and the
    verdict is `worse` only beyond it. What was not measured, before or since, is never a pass.

    \b
    muster change judge driver-575 --sweep after
    muster change judge driver-575 --format json | jq '.comparisons[] | select(.grade == "worse")'

    Exit: 0 passed, 1 worse, 2 usage, 3 cannot tell.
    """
    from healthcheck.change import judge as judging
    from healthcheck.change import keep, page
    from healthcheck.change.standing import with_figures

    folder = state_dir(state)
    held = keep.named(folder, name)
    now = time.time()
    names = [*held.canary, *held.controls]
    standing, troubles = with_figures(_measured(sweep, names, folder, rules), folder, since=held.began,
                                      until=now)
    found = judging.judge(held, standing, now, clean(who(), 200), made=made)
    held = replace(held, judgements=(*held.judgements, found)[-_MOST_JUDGEMENTS:])
    keep.write(folder, held)
    _report(troubles)
    if as_json:
        _print(judged(held, found))
    else:
        _lines([*page.judged(held, found, fold), page.last(held)])
    return found.verdict.exit_code


@change.command(name="list", short_help="List changes.")
@STATE
@_JSON
def list_(state: str | None, as_json: bool) -> int:
    """List all changes: newest verdict, when each began, and its canary.

    \b
    muster change list
    muster change list --format json | jq -r '.changes[] | select(.state != "passed") | .name'

    Exit: 0, 2 usage, 3 one cannot be read.
    """
    from healthcheck.change import keep, page

    every = list(keep.every(state_dir(state)))
    found = sorted((one for one in every if isinstance(one, SiteChange)),
                   key=lambda one: (one.began, one.name))
    troubles = [clean(one, 300) for one in every if not isinstance(one, SiteChange)]
    _report(troubles)
    if as_json:
        _print({"schema": "muster.changes/1", "changes": [row(one) for one in found], "unread": troubles})
    else:
        _lines(page.table(found, fold) if found else ["no change was started: muster change start NAME"])
    return 3 if troubles else 0


@change.command(short_help="Show a change and its newest judgement.")
@click.argument("name", shell_complete=completing.changes)
@STATE
@_JSON
def show(name: str, state: str | None, as_json: bool) -> int:
    """Show the change NAME: canary, controls, rings, what stood before it, and the newest judgement.

    \b
    muster change show driver-575
    muster change show driver-575 --format json | jq '.before.nodes | keys'

    Exit: 0, 2 usage or no such change.
    """
    from healthcheck.change import keep, page
    from healthcheck.change.document import document

    held = keep.named(state_dir(state), name)
    if as_json:
        _print(document(held))
        return 0
    judgement = page.judged(held, held.newest, fold) if held.newest is not None else ()
    _lines([*page.began(held, fold), *judgement, page.last(held)])
    return 0


@change.command(name="next", short_help="Name the next ring, after a pass.")
@click.argument("name", shell_complete=completing.changes)
@STATE
@_JSON
def next_(name: str, state: str | None, as_json: bool) -> int:
    """Name the nodes that may get the change NAME next, and the command that starts them as a change of their
    own. It names none before the newest verdict is `passed`, and acts on no node.

    \b
    muster change next driver-575
    muster change next driver-575 --format json | jq -r '.command'

    Exit: 0 a ring is named, or none is left, 1 the newest verdict is worse, 2 usage, 3 not judged or cannot
    tell.
    """
    from healthcheck.change import keep, page

    held = keep.named(state_dir(state), name)
    found = page.next_ring(held, fold)
    if as_json:
        _print(found)
    elif not found["passed"]:
        _lines([f"no ring is named: {found['why']}", page.last(held)])
    elif found["ring"] is None:
        _lines([f"change {held.name} passed, and no ring is left"])
    else:
        _lines([f"next ring: {fold(found['ring'])} ({len(found['ring'])} nodes)",
                f"before it gets the change: {found['command']}"])
    return held.newest.verdict.exit_code if held.newest is not None else 3


def _measured(folder: str | None, nodes: Sequence[str], state: Path, rules: str | None) -> Stood:
    from healthcheck.change.standing import of_store, of_sweep

    if folder is not None:
        from healthcheck.ruleset.ruleset import ruleset_of

        return of_sweep(Path(folder), nodes, ruleset_of(rules))
    with opened(state) as store:
        return of_store(store, nodes)


def _report(troubles: Iterable[str]) -> None:
    for line in troubles:
        click.echo(f"muster: {line}", err=True)


def _print(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=1))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
