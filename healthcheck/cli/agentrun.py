"""`muster agent run`: what an installed agent does, on a machine where muster itself is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inventory.cli.span import span
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.agent.main import Installed


@click.command(short_help="Look at this machine, judge it, and keep the result.")
@click.option("--nagios", is_flag=True, help="One line with numbers; exit 0 1 2 3 in Nagios' sense.")
@click.option("--slurm", is_flag=True, help="For HealthCheckProgram: exit 0 always; only the head's triage drains.")
@click.option("--profile", metavar="NAME", default="timer", show_default=True, help="The occasion.")
@click.option("--textfile", metavar="DIR", help="node_exporter's folder for text files.")
@click.option("--state", metavar="DIR", help="Where recording and result are kept. [/var/lib/muster/agent]")
@click.option("--period", metavar="SPAN", callback=span(10, 86400), default="5m", show_default=True, help="How often this is run.")
@click.option("--inventory", "-i", metavar="FILE", help="Inventory file, for what it says of this machine.")
@click.option("--sku", metavar="NAME", help="The SKU, where the inventory names none.")
@click.option("--rules", metavar="DIR", help="A folder of site rules and SKUs that override the packaged ones by id.")
def run(
    nagios: bool, slurm: bool, profile: str, textfile: str | None, state: str | None, period: float, inventory: str | None,
    sku: str | None, rules: str | None,
) -> int:
    """Look at this machine once, judge it by the rules here, and keep recording and result whole in the state folder.

    A node on which the agent was installed (muster agent install) needs no muster for that: its timer runs the same code.

    \b
    muster agent run --sku hgx-h100
    muster agent run --nagios --state /tmp/look
    muster agent run --textfile /var/lib/prometheus/node-exporter

    Exit: 0 fine, 1 a warning or critical FAIL, 2 usage, 3 something unknown, or another run goes on; with --slurm 0 always.
    """
    from healthcheck.agent.main import main

    flags = [f"--{name}" for name, given in (("nagios", nagios), ("slurm", slurm)) if given]
    named = [word for name, value in (("profile", profile), ("textfile", textfile), ("state", state)) if value is not None
             for word in (f"--{name}", value)]
    try:
        return main(["run", *flags, *named], lambda _: _here(inventory, sku, rules, period, profile))
    except MusterError as error:
        if not (nagios or slurm):
            raise
        click.echo(f"MUSTER UNKNOWN - {error}".replace("|", "/") if nagios else f"muster: {error}", err=slurm)
        return 0 if slurm else 3


def _here(inventory: str | None, sku: str | None, rules: str | None, period: float, profile: str) -> Installed:
    """What would be installed here."""
    from importlib.metadata import version

    from healthcheck.agent.compiled import compile_node, compile_rules
    from healthcheck.agent.main import Installed
    from healthcheck.cli.check import choose
    from healthcheck.collector import program
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from inventory.errors import UsageError

    ruleset = load_ruleset(rulesfolder.folders(rules))
    if sku is not None and sku not in ruleset.skus:
        raise UsageError(f"--sku {sku}: no such SKU; there are {', '.join(sorted(ruleset.skus))}")
    (node,) = choose(None, inventory, True, False, ruleset)
    said = compile_node(node, sku, period, profile, version("cluster-muster"))
    return Installed(compile_rules(ruleset), said, program.collector_source(), program.nvml_extra().get("nvml", b""))
