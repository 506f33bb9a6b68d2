"""`muster baseline approve`: approve proposed templates, one by one or by rule, with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import click

from healthcheck.cli.baselinereview import loaded
from healthcheck.cli.options import CATALOGUE
from inventory.cli.chosen import who
from inventory.cli.renamed import RenamedOption
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
    raise click.BadParameter(f"{given!r} is not a share, expected one such as 95%", ctx, parameter)


@click.command()
@click.argument("baseline", metavar="B")
@click.argument("templates", metavar="[ID|LINE...]", nargs=-1)
@click.option("--seen-on", metavar="SHARE", callback=_share,
              help="Only templates seen on this share of nodes: 95%.")
@click.option("--boots", metavar="N", type=click.IntRange(1), help="Only templates seen in at least N boots.")
@click.option("--phase", "phases", multiple=True, type=click.Choice(_PHASES),
              help="Only templates seen in no other phase of a boot.")
@click.option("--flagged", is_flag=True, help="Also approve flagged templates, each named by itself.")
@click.option("--reason", "why", cls=RenamedOption, old="--why", metavar="TEXT", required=True,
              help="The reason; it is kept in the file.")
@click.option("--by", metavar="NAME", help="Who approves. Default: you.")
@click.option("--dry-run", is_flag=True, help="Show what would be approved; change nothing.")
@CATALOGUE
def approve(
    baseline: str, templates: tuple[str, ...], seen_on: float | None, boots: int | None,
    phases: tuple[str, ...], flagged: bool, why: str, by: str | None, dry_run: bool, rules: str | None,
) -> None:
    """Approve templates that baseline B proposes: by ID, line or beginning, or all that meet a rule.

    A rule skips flagged templates: check each, then name it with --flagged. Lines in the catalogue of known
    faults cannot be approved. Either all named templates are approved, or none.

    \b
    muster baseline approve h100.yaml --seen-on 95% --boots 3 --reason 'acceptance, November' --dry-run
    muster baseline approve h100.yaml --seen-on 95% --boots 3 --reason 'acceptance, November'
    muster baseline approve h100.yaml 'systemd[<*>]: Mounted' --reason 'file systems of ours'
    muster baseline approve h100.yaml 3fa9c1d --flagged --reason 'this BIOS says so; ticket 4711'

    Exit: 0 approved (or nothing met the rule), 2 usage, an unknown ID, a flagged one, or a known fault.
    """
    from healthcheck.baseline.approval import ApprovalRule, choose, short_id
    from healthcheck.baseline.approval import approve as approved
    from healthcheck.baseline.file import stamp, write
    from healthcheck.baseline.flags import flagged as with_flags
    from healthcheck.kernellog.model import Phase

    reason, name = clean(why.strip()), clean((by if by is not None else who()).strip(), 200)
    if not reason or not name:
        raise UsageError(
            f"{'--reason' if not reason else '--by'} is empty: give text, which is kept in the file")
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
    text = f"{len(chosen.approved)} {'would be ' if dry_run else ''}approved, {left} stay proposed"
    held_back = (f"; {len(chosen.held_back)} that meet the rule are flagged; see: muster baseline review "
                 f"{baseline} --flagged")
    click.echo(text + (held_back if chosen.held_back else ""))
