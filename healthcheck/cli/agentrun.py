"""`muster agent run`: one run of the agent, on a machine where muster itself is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from healthcheck.cli.options import RULES, check_sku
from inventory.cli.span import span
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.agent.main import Installed


@click.command(short_help="Check this machine and keep the result.")
@click.option("--nagios", is_flag=True, help="One line with numbers; Nagios' exit codes 0 1 2 3.")
@click.option("--slurm", is_flag=True,
              help="For HealthCheckProgram: exit 0 always; only the head's triage drains.")
@click.option("--profile", metavar="NAME", default="timer", show_default=True, help="The profile of rules.")
@click.option("--textfile", metavar="DIR", help="node_exporter's folder for text files.")
@click.option("--state", metavar="DIR", help="Folder for recording and result. [/var/lib/muster/agent]")
@click.option("--period", metavar="SPAN", callback=span(10, 86400), default="5m", show_default=True,
              help="The interval between runs.")
@click.option("--inventory", "-i", metavar="FILE", help="Inventory file with this machine's entry.")
@click.option("--sku", metavar="NAME", help="The SKU, if the inventory names none.")
@RULES
def run(
    nagios: bool, slurm: bool, profile: str, textfile: str | None, state: str | None, period: float,
    inventory: str | None, sku: str | None, rules: str | None,
) -> int:
    """Check this machine once by the local rules, and keep recording and result in the state folder.

    A node with an installed agent (muster agent install) needs no muster: its timer runs the same code.

    \b
    muster agent run --sku hgx-h100
    muster agent run --nagios --state /tmp/agent
    muster agent run --textfile /var/lib/prometheus/node-exporter

    Exit: 0 fine, 1 a warning or critical FAIL, 2 usage, 3 something unknown, or another run is active;
    with --slurm always 0.
    """
    from healthcheck.agent.main import main
    from healthcheck.agent.output import unknown

    flags = [f"--{name}" for name, given in (("nagios", nagios), ("slurm", slurm)) if given]
    named = [word for name, value in (("profile", profile), ("textfile", textfile), ("state", state))
             if value is not None for word in (f"--{name}", value)]
    try:
        return main(["run", *flags, *named], lambda _: _here(inventory, sku, rules, period, profile))
    except MusterError as error:
        if not (nagios or slurm):
            raise
        click.echo(unknown(str(error)) if nagios else f"muster: {error}", err=slurm)
        return 0 if slurm else 3


def _here(
    inventory: str | None, sku: str | None, rules: str | None, period: float, profile: str,
) -> Installed:
    """What `muster agent install` would install here."""
    from importlib.metadata import version

    from healthcheck.agent.compiled import compile_node, compile_rules
    from healthcheck.agent.main import Installed
    from healthcheck.cli.check import choose
    from healthcheck.collector import program
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset

    ruleset = load_ruleset(rulesfolder.folders(rules))
    check_sku(sku, ruleset)
    (node,) = choose(None, inventory, True, False, ruleset)
    compiled = compile_node(node, sku, period, profile, version("cluster-muster"))
    return Installed(compile_rules(ruleset), compiled, program.collector_source(),
                     program.nvml_extra().get("nvml", b""))
