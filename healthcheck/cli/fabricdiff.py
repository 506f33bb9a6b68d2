"""`muster fabric diff`: the cabling plan against what is cabled, and the fewest moves that repair it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from healthcheck.cli.fabricfiles import PLAN, looked, read_plan, seen_cabling, sources
from healthcheck.cli.options import INVENTORY, STATE
from healthcheck.subnet.plancheck import FaultOfPlan, faults
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.load import usual_inventory

if TYPE_CHECKING:
    from healthcheck.cli.ufmoptions import UfmAsked


@click.command(short_help="Compare the plan with what is cabled; list the moves that repair it.")
@PLAN
@sources
@INVENTORY
@formats("csv", text="csv: the steps for the data centre; json: muster.fabric.diff/1.")
@STATE
def diff(
    plan: str | None, node: str | None, devices: tuple[str, ...], ufm: UfmAsked, lldp: str | None,
    source: str | None, inventory: str | None, fmt: str, state: str | None,
) -> int:
    """Compare the cabling plan in --plan FILE with what is cabled: as its subnet shows it to NODE, as UFM
    knows it (--ufm), as lldpd on nodes knows its neighbours (--lldp), or as outputs in --from FOLDER show.

    Swapped pairs, crossed rails, a tray shifted by one, cables in wrong ports, missing and extra ones are
    named, then the steps that repair them, rack by rack: no other list plugs in fewer ends. Cables of one
    part and length are exchangeable; one that is too short for a link is not moved there. What was not seen,
    because a host is off or an output ended early, is unknown and not missing.

    \b
    muster fabric diff gpu001 --plan cabling.csv
    muster fabric diff --plan cabling.csv --from outputs
    muster fabric diff --plan cabling.csv --from outputs --format csv > work.csv

    Exit: 0 as planned, 1 something differs, 2 usage or a file that cannot be read, 3 something is unknown.
    """
    from healthcheck.subnet import diffpage
    from healthcheck.subnet.difference import compare
    from healthcheck.subnet.worklist import as_csv, work_list

    if plan is None:
        raise UsageError("give --plan FILE")
    planned = read_plan(plan)
    for one in faults(planned):
        if one.kind in (FaultOfPlan.PORT_TWICE, FaultOfPlan.SAME_DEVICE, FaultOfPlan.UNKNOWN_DEVICE):
            raise UsageError(f"{plan}: {one.subject}: {one.what}")
    outputs = looked(node, devices, ufm, lldp, source, usual_inventory(inventory))
    found = compare(planned, seen_cabling(planned, outputs, state))
    if fmt == "json":
        click.echo(json.dumps(diffpage.document(found, planned), indent=1))
    elif fmt == "csv":
        click.echo(as_csv(work_list(found, planned), planned), nl=False)
    else:
        for line in diffpage.text(found, planned):
            click.echo(line)
    return diffpage.exit_code(found)
