"""`muster baseline approve`: accept templates that were proposed, one by one or by rule, with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import click

from inventory.cli.chosen import who
from inventory.errors import UsageError
from inventory.text import clean

_PHASES = ("kernel", "initrd", "services", "running", "unknown")
_SHOWN = 40     # lines of what was approved
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)(%?)")


def _share(ctx: click.Context, parameter: click.Parameter, given: str | None) -> float | None:
    """For an option: 95%, 95 or 0.95."""
    if given is None:
        return None
    match = _SHARE.fullmatch(given)
    if match is not None:
        share = float(match[1]) / (100 if match[2] or float(match[1]) > 1 else 1)
        if 0 < share <= 1:
            return share
    raise click.BadParameter(f"{given!r} is no share, expected one such as 95%", ctx, parameter)


@click.command()
@click.argument("baseline", metavar="B")
@click.argument("templates", metavar="[ID|LINE...]", nargs=-1)
@click.option("--seen-on", metavar="SHARE", callback=_share, help="Only what at least so many of the nodes said: 95%.")
@click.option("--boots", metavar="N", type=click.IntRange(1), help="Only what was said in at least so many boots.")
@click.option("--phase", "phases", multiple=True, type=click.Choice(_PHASES), help="Only what was said in these phases of a boot alone.")
@click.option("--flagged", is_flag=True, help="Accept what is flagged, too; each named by itself.")
@click.option("--why", metavar="TEXT", required=True, help="The reason, for whoever reads the file.")
@click.option("--by", metavar="NAME", help="Who approves. Default: you.")
@click.option("--dry-run", is_flag=True, help="Say what would be approved, and leave the file as it is.")
@click.option("--rules", metavar="DIR", help="A folder of site rules and catalogue entries over the packaged ones.")
def approve(
    baseline: str, templates: tuple[str, ...], seen_on: float | None, boots: int | None, phases: tuple[str, ...], flagged: bool, why: str,
    by: str | None, dry_run: bool, rules: str | None,
) -> None:
    """Accept templates that baseline B proposes: those of these IDs, lines or beginnings, or all that meet a rule.

    A rule leaves out what is flagged: look at it, then name each by itself with --flagged. What the catalogue of known faults knows
    can never be approved. Either all that is named is approved, or nothing.

    \b
    muster baseline approve h100.yaml --seen-on 95% --boots 3 --why 'acceptance, November' --dry-run
    muster baseline approve h100.yaml --seen-on 95% --boots 3 --why 'acceptance, November'
    muster baseline approve h100.yaml 'systemd[<*>]: Mounted' --why 'file systems of ours'
    muster baseline approve h100.yaml 3fa9c1d --flagged --why 'this BIOS says so; ticket 4711'

    Exit: 0 approved (or nothing met the rule), 2 usage, an unknown ID, a flagged one, or a known fault.
    """
    from healthcheck.baseline.approval import ApprovalRule, choose, short_id
    from healthcheck.baseline.approval import approve as approved
    from healthcheck.baseline.file import stamp, write
    from healthcheck.baseline.flags import flagged as with_flags
    from healthcheck.cli.baselinereview import loaded
    from healthcheck.kernellog.model import Phase

    reason, name = clean(why.strip()), clean((by if by is not None else who()).strip(), 200)
    if not reason or not name:
        raise UsageError(f"{'--why' if not reason else '--by'} is empty: whoever reads the file wants to know")
    since = stamp(Path(baseline))
    held, catalogue = loaded(baseline, rules)
    held = with_flags(held, catalogue)
    chosen = choose(held, templates, ApprovalRule(seen_on, boots, tuple(map(Phase, phases))), flagged=flagged)
    for one in chosen.approved[:_SHOWN]:
        click.echo(f"  {short_id(one.template)}  {clean(one.template, 140)}")
    if len(chosen.approved) > _SHOWN:
        click.echo(f"  and {len(chosen.approved) - _SHOWN} more")
    if chosen.approved and not dry_run:
        write(approved(held, chosen.approved, name, reason), Path(baseline), since)
    left = len(held.proposed) - len(chosen.approved)
    told = f"{len(chosen.approved)} {'would be ' if dry_run else ''}approved, {left} stay proposed"
    held_back = f"; {len(chosen.held_back)} that meet the rule are flagged: muster baseline review {baseline} --flagged"
    click.echo(told + (held_back if chosen.held_back else ""))
