"""`muster fabric`: cables, links and switches as their subnet sees them; commands load on use."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "check": ("healthcheck.cli.fabriccheck:check",
              "Check subnet managers, links, counters and parts as the subnet shows them."),
    "plan": ("healthcheck.cli.fabricplan:plan", "Check a cabling plan, or generate one from counts."),
    "diff": (
        "healthcheck.cli.fabricdiff:diff",
        "Compare the plan with what is cabled; list the moves that repair it.",
    ),
    "burn": (
        "healthcheck.cli.fabricburn:burn",
        "Plan traffic that loads every link; judge the rates that were measured.",
    ),
    "history": (
        "healthcheck.cli.fabrichistory:history",
        "Which links were down, how often, and what no restart explains.",
    ),
    "disable": (
        "provisioning.cli.fabricports:disable",
        "Disable ports whose links do harm, and show what is lost.",
    ),
    "enable": (
        "provisioning.cli.fabricports:enable",
        "Enable ports that were disabled here.",
    ),
    "map": (
        "provisioning.cli.fabricmap:map_",
        "Write what follows from the fabric: Slurm's topology, host order, a drawing.",
    ),
}


@click.group(cls=LazyGroup, places=COMMANDS)
def fabric() -> None:
    """Look at the fabric as its subnet does: what is planned, what is there, and what repairs it.

    \b
    muster fabric check gpu001 --plan cabling.csv          what is wrong, as gpu001's subnet shows it
    muster fabric plan --from cabling.csv                  check the plan of the data centre
    muster fabric diff --plan cabling.csv --from outputs   compare it with what is there
    muster fabric burn --from outputs                      pairs of hosts that load every link
    muster fabric history --from outputs --events event.log  links that were down by themselves
    muster fabric disable --proposed --by gpu001           ports that do harm, and what is lost
    muster fabric map --plan cabling.csv --format slurm    topology.conf
    """
