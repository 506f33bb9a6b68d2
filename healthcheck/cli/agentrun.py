"""`muster agent run`: one run of the agent, on a machine where muster itself is installed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from healthcheck.agent.output import unknown
from healthcheck.cli import completing
from healthcheck.cli.check import choose
from healthcheck.cli.options import RULES, check_sku
from inventory.cli.span import span
from inventory.errors import MusterError, UsageError

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
@click.option("--loop", is_flag=True, help="Run again every --period, until SIGTERM.")
@click.option("--enter", metavar="PID", type=click.IntRange(1, 1 << 22),
              help="Check the machine from the namespaces of this process: 1 in a container that sees the "
                   "host's processes.")
@click.option("--node", metavar="NAME", envvar="MUSTER_NODE",
              help="This machine's name in the inventory; also MUSTER_NODE. [its hostname]")
@click.option("--inventory", "-i", metavar="FILE", help="Inventory file with this machine's entry.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="The SKU, if the inventory names none.")
@RULES
def run(
    nagios: bool, slurm: bool, profile: str, textfile: str | None, state: str | None, period: float,
    loop: bool, enter: int | None, node: str | None, inventory: str | None, sku: str | None,
    rules: str | None,
) -> int:
    """Check this machine once by the local rules, and keep recording and result in the state folder.

    A node with an installed agent (muster agent install) needs no muster: its timer runs the same code.

    \b
    muster agent run --sku hgx-h100
    muster agent run --nagios --state /tmp/agent
    muster agent run --textfile /var/lib/prometheus/node-exporter
    muster agent run --loop --enter 1 --node gpu001     in a container (muster agent manifest)

    Exit: 0 fine, 1 a warning or critical FAIL, 2 usage, 3 something unknown, or another run is active;
    with --slurm always 0, and with --loop 0 on SIGTERM.
    """
    from healthcheck.agent.main import main

    if nagios and slurm:
        raise UsageError("--nagios and --slurm exclude each other: give one")
    flags = [f"--{name}" for name, given in (("nagios", nagios), ("slurm", slurm)) if given]
    named = [word for name, value in (("profile", profile), ("textfile", textfile), ("state", state),
                                       ("enter", None if enter is None else str(enter)))
             if value is not None for word in (f"--{name}", value)]
    if loop:
        return _loop(lambda: main(["run", *flags, *named],
                                  lambda _: _here(inventory, sku, rules, period, profile, node)), period)
    try:
        return main(["run", *flags, *named], lambda _: _here(inventory, sku, rules, period, profile, node))
    except MusterError as error:
        if not (nagios or slurm):
            raise
        click.echo(unknown(str(error)) if nagios else f"muster: {error}", err=slurm)
        return 0 if slurm else 3


def _loop(run: Callable[[], int], period: float) -> int:
    """Runs it at once and then every `period` seconds, each time in a process of its own, which it may end;
    returns on SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.is_set():
        began = time.monotonic()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            code = 2
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                code = run()
            except MusterError as error:
                click.echo(f"muster: {error}", err=True)
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.waitpid(child, 0)
        ended.wait(max(0.0, began + period - time.monotonic()))
    return 0


def _here(
    inventory: str | None, sku: str | None, rules: str | None, period: float, profile: str,
    name: str | None = None,
) -> Installed:
    """What `muster agent install` would install here; `name` is this machine's in the inventory."""
    from healthcheck.agent.compiled import compile_node, compile_rules
    from healthcheck.agent.main import Installed
    from healthcheck.collector import program
    from healthcheck.ruleset.ruleset import ruleset_of
    from inventory.release import VERSION

    ruleset = ruleset_of(rules)
    check_sku(sku, ruleset)
    (node,) = (choose(None, inventory, True, False, ruleset) if name is None
               else choose(name, inventory, False, False, ruleset, sku))
    compiled = compile_node(node, sku, period, profile, VERSION)
    return Installed(compile_rules(ruleset), compiled, program.collector_source(),
                     program.nvml_extra().get("nvml", b""))
