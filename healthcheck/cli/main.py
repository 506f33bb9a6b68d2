"""The root command. It knows its commands by name only and loads each on use, so that the gate of a launch script starts lean."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

import click

from inventory.cli.lazy import LazyGroup
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.ruleset.ruleset import Ruleset

COMMANDS = {
    "check": ("healthcheck.cli.check:check", "Sweep nodes and say what is wrong."),
    "nodes": ("healthcheck.cli.nodes:nodes", "Say how the nodes stand, a line each."),
    "history": ("healthcheck.cli.history:history", "Say what was wrong with nodes, and since when."),
    "store": ("healthcheck.cli.store:store", "Look after the file in which sweeps are remembered."),
    "exporter": ("healthcheck.cli.exporter:exporter", "Serve Prometheus what is known of the fleet."),
    "triage": ("provisioning.cli.triage:triage", "Decide what is to be done about nodes, and do it."),
    "incident": ("healthcheck.cli.incident:incident", "List, show and close causes that several nodes share."),
    "cordon": ("provisioning.cli.cordon:cordon", "Keep new jobs away from nodes, and list where we do."),
    "remediate": ("provisioning.cli.remediate:remediate", "Mend nodes by a step that the policy names, and say whether it helped."),
    "reboot": ("provisioning.cli.reboot:reboot", "Restart nodes that we hold, when their jobs have ended."),
    "uncordon": ("provisioning.cli.cordon:uncordon", "Give nodes back to jobs."),
    "lease": ("provisioning.cli.lease:lease", "List leases of disruptive work, and give back what was left."),
    "repaired": ("healthcheck.cli.repaired:repaired", "Say that something was repaired, so that the kernel log accuses it no more."),
    "silence": ("healthcheck.cli.silence:silence", "Have triage leave something alone for some time, and list what it does."),
    "unsilence": ("healthcheck.cli.silence:unsilence", "End a silence, or take nodes out of it."),
    "ticket": ("healthcheck.cli.ticket:ticket", "Print a ticket for whoever is to repair a node."),
    "rma": ("provisioning.cli.rma:rma", "Take a part, or a whole node, through its return to the vendor."),
    "record": ("healthcheck.cli.record:record", "Write one look at one node as a file for a public report, names replaced."),
    "evidence": ("healthcheck.cli.evidence:evidence", "Keep a full look at one node, and nvidia-bug-report.sh, for its repair."),
    "sku": ("healthcheck.cli.sku:sku", "List and show SKUs, and propose one from nodes."),
    "baseline": ("healthcheck.cli.baseline:baseline", "Learn what healthy nodes say in their kernel log, and judge one."),
    "gate": ("healthcheck.cli.gate:gate", "Say whether nodes may start a job, by the signed snapshot kept here."),
    "bringup": ("provisioning.cli.bringup:bringup", "Take machines from power-off to service, step by step, and say what keeps them."),
    "burnin": ("provisioning.cli.burnin:burnin", "Burn nodes in, the last gate before training, and name who is guilty."),
    "certificate": ("healthcheck.cli.certificate:certificate", "What nodes have shown in burn-in, signed; and the keys."),
    "blame": ("healthcheck.cli.blame:blame", "Say which node killed a job, or that nothing says so."),
    "explain": ("healthcheck.cli.explain:explain", "Say what a rule checks, why, and where it is from."),
    "rules": ("healthcheck.cli.rules:rules", "List the rules, or show one for nodes of a SKU."),
    "agent": ("provisioning.cli.agent:agent", "Install on nodes what looks at them on a timer, and say how it is."),
    "bmc": ("provisioning.cli.bmc:bmc", "Ask the controllers that sit beside machines: power, hardware, firmware, event log."),
    "privilege": ("healthcheck.cli.privilege:privilege", "Print what lets looks see without root, and lets muster cordon in Kubernetes."),
    "inventory": ("inventory.cli.inventory:inventory", "Make, check and read the inventory; pin host keys; set lifecycles."),
    "demo": ("provisioning.cli.demo:demo", "Start a loopback fleet with planted faults, and find them."),
    "help": ("healthcheck.cli.help:help_", "List the topics of the documentation, or show one."),
}


@click.group(cls=LazyGroup, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="cluster-muster", prog_name="muster")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Bring up GPU training clusters and keep them healthy.

    \b
    muster check 'gpu[001-064]'          sweep nodes by name, taking addresses from ~/.ssh/config
    muster check --inventory muster.yaml sweep all nodes of an inventory
    muster check --local                 look at this machine
    muster demo                          see it find planted faults on a loopback fleet
    muster help                          list the topics of the documentation

    \b
    Shell completion: eval "$(_MUSTER_COMPLETE=bash_source muster)"      (or zsh_source, fish_source)
    """
    ctx.meta["muster.skus"] = lambda: tuple(_ruleset().skus)
    ctx.meta["muster.profiles"] = lambda: tuple(_ruleset().profiles)


@functools.cache
def _ruleset() -> Ruleset:
    """For commands of packages that know nothing of rules, but check names that these define."""
    from healthcheck.config.rulesfolder import folders
    from healthcheck.ruleset.ruleset import load_ruleset

    return load_ruleset(folders(None))


def calm_collector() -> None:
    """Has Python look for garbage in cycles far less often.

    A sweep makes some hundred thousand small values that live as long as it does and hold no cycles; walking them again and again, as
    Python does by default, is a quarter of what judging costs (scripts/bench/judge).
    """
    gc.set_threshold(200_000, 20, 100)


def heed_signals() -> None:
    """SIGTERM and a hung-up terminal end the command as Ctrl-C does, with what it has; wherever in the program they arrive."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:   # not under nohup
        signal.signal(signal.SIGHUP, _interrupt)
    signal.signal(signal.SIGALRM, _interrupt)
    sys.unraisablehook = _unraisable


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that arrives while Python runs a finalizer is swallowed there: it is sent again a little later."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(lost)


def main() -> None:
    """The `muster` command. What a person can mend is one line on standard error; exit codes are those of DESIGN section 8."""
    calm_collector()
    heed_signals()
    try:
        code = root.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("muster: interrupted", file=sys.stderr)  # noqa: T201
        code = 130
    except MusterError as error:
        print(f"muster: {error}", file=sys.stderr)  # noqa: T201
        code = error.exit_code
    except BrokenPipeError:
        code = 0
    except OSError as error:
        print(f"muster: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        code = 2
    except SystemExit as error:
        # click ends so, with 1, when the reader of standard output went away, and leaves this private wrapper; nobody has failed.
        code = 0 if type(sys.stdout).__name__.endswith("PacifyFlushWrapper") else error.code
    _leave(code if isinstance(code, int) else 0)


def _leave(code: int) -> None:
    """Ends the process at once: a thread that hangs in a resolver or a dead connection must not hold it up."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    except OSError:
        code = code or 2
    os._exit(code)
