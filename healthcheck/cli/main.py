"""The root command. It loads each command only when used, so that the gate of a launch script starts fast."""

from __future__ import annotations

import errno
import functools
import gc
import io
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

import click

from inventory.cli.nearest import NearestGroup
from inventory.errors import MusterError
from inventory.release import VERSION
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from healthcheck.ruleset.ruleset import Ruleset

COMMANDS = {
    "check": ("healthcheck.cli.check:check", "Sweep nodes and report what is wrong."),
    "nodes": ("healthcheck.cli.nodes:nodes", "Show each node's state, one line each."),
    "report": ("healthcheck.cli.report:report",
               "Show what is ready, what changed and whose turn it is; write the status page."),
    "history": ("healthcheck.cli.history:history", "Show what was wrong with nodes, and since when."),
    "store": ("healthcheck.cli.store:store", "Check, back up, restore and prune the store of sweeps."),
    "exporter": ("healthcheck.cli.exporter:exporter", "Serve the fleet's state to Prometheus."),
    "triage": ("provisioning.cli.triage:triage", "Decide what to do about sick nodes, and do it."),
    "incident": ("healthcheck.cli.incident:incident",
                 "List, show and close causes that several nodes share."),
    "cordon": ("provisioning.cli.cordon:cordon", "Keep new jobs away from nodes; list cordons."),
    "remediate": ("provisioning.cli.remediate:remediate",
                  "Repair nodes by the policy's steps, and report whether it helped."),
    "reboot": ("provisioning.cli.reboot:reboot", "Reboot nodes that we hold, once their jobs have ended."),
    "uncordon": ("provisioning.cli.cordon:uncordon", "Give nodes back to jobs."),
    "lease": ("provisioning.cli.lease:lease", "List leases of disruptive work; release leftovers."),
    "repaired": ("healthcheck.cli.repaired:repaired",
                 "Record a repair, which ends what kernel logs reported."),
    "silence": ("healthcheck.cli.silence:silence",
                "Have triage ignore a problem for some time; list silences."),
    "unsilence": ("healthcheck.cli.silence:unsilence", "End a silence, or take nodes out of it."),
    "ticket": ("healthcheck.cli.ticket:ticket", "Print a repair ticket for a node."),
    "rma": ("provisioning.cli.rma:rma", "Track the return of a part or node to the vendor."),
    "record": ("healthcheck.cli.record:record", "Save an anonymised snapshot of a node for a public report."),
    "evidence": ("healthcheck.cli.evidence:evidence", "Save a full snapshot of a node for its repair."),
    "sku": ("healthcheck.cli.sku:sku", "List and show SKUs, and propose one from nodes."),
    "baseline": ("healthcheck.cli.baseline:baseline",
                 "Learn the kernel log of healthy nodes, and judge a log by it."),
    "change": ("healthcheck.cli.change:change",
               "Prove a change of driver, firmware, kernel or image on a canary."),
    "gate": ("healthcheck.cli.gate:gate", "Decide whether nodes may start a job."),
    "bringup": ("provisioning.cli.bringup:bringup",
                "Bring machines from power-off to service, step by step."),
    "burnin": ("provisioning.cli.burnin:burnin", "Burn nodes in, and name the faulty ones."),
    "certificate": ("healthcheck.cli.certificate:certificate", "Manage signed burn-in results and keys."),
    "blame": ("healthcheck.cli.blame:blame", "Find the node that killed a job."),
    "watch": ("healthcheck.cli.watch:watch", "Watch a running job: who slows it, and why."),
    "explain": ("healthcheck.cli.explain:explain", "Explain a rule, an Xid, a policy or a log file."),
    "rules": ("healthcheck.cli.rules:rules", "List the rules, or show one for nodes of a SKU."),
    "agent": ("provisioning.cli.agent:agent",
              "Install the agent that checks nodes on a timer; show its state."),
    "os": ("provisioning.cli.os:os_", "Install operating systems over the network."),
    "bmc": ("provisioning.cli.bmc:bmc", "Query BMCs: power, hardware, firmware, event log."),
    "firmware": ("provisioning.cli.firmware:firmware",
                 "Compare firmware versions with what is wanted."),
    "images": ("provisioning.cli.images:images",
               "Show and pull container images by digest, over a fleet."),
    "fabric": ("healthcheck.cli.fabric:fabric",
               "Compare the fabric's cables and links with the plan; list what repairs them."),
    "privilege": ("healthcheck.cli.privilege:privilege",
                  "Print the setup for checks without root and for Kubernetes."),
    "init": ("healthcheck.cli.init:init",
             "Set muster up for your machines: inventory, host keys, SKUs, a first sweep."),
    "inventory": ("inventory.cli.inventory:inventory",
                  "Make, check and read the inventory; pin host keys; set lifecycles."),
    "demo": ("provisioning.cli.demo:demo", "Start a loopback fleet with planted faults, and find them."),
    "help": ("healthcheck.cli.help:help_", "List the topics of the documentation, or show one."),
}

# The headings of `muster --help`: what one wants to do -> the commands for it.
SECTIONS = {
    "Look": ("check", "nodes", "fabric", "watch", "report", "history", "exporter"),
    "Decide": ("triage", "incident", "gate", "silence", "unsilence"),
    "Act": ("cordon", "uncordon", "remediate", "reboot", "lease", "repaired", "ticket", "rma"),
    "Bring up": ("bringup", "os", "bmc", "firmware", "images"),
    "Prove": ("burnin", "certificate", "baseline", "change"),
    "Ask why": ("explain", "blame", "rules", "evidence", "record"),
    "Set up": ("init", "inventory", "sku", "agent", "store", "privilege", "demo", "help"),
}

_MOST = 1500        # characters of a message
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


@click.group(cls=NearestGroup, places=COMMANDS, sections=SECTIONS,
             context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(VERSION, prog_name="muster")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Bring up GPU training clusters and keep them healthy.

    \b
    muster init                          set up: inventory, host keys, SKUs, a first sweep
    muster check 'gpu[001-064]'          sweep nodes by name, with addresses from ~/.ssh/config
    muster check --inventory muster.yaml sweep all nodes of an inventory
    muster check --local                 check this machine
    muster demo                          find planted faults on a loopback fleet
    muster help                          list the topics of the documentation

    \b
    Shell completion: eval "$(_MUSTER_COMPLETE=bash_source muster)"      (or zsh_source, fish_source)
    """
    ctx.meta["muster.skus"] = lambda: tuple(_ruleset().skus)
    ctx.meta["muster.profiles"] = lambda: tuple(_ruleset().profiles)


@functools.cache
def _ruleset() -> Ruleset:
    """For commands of packages without rules that check the names of SKUs and profiles."""
    from healthcheck.ruleset.ruleset import ruleset_of

    return ruleset_of(None)


def relax_collector() -> None:
    """Makes Python's garbage collector run far less often.

    A sweep makes some hundred thousand small values that live as long as it and hold no cycles; scanning them
    again and again, as Python does by default, is a quarter of what judging costs (scripts/bench/judge).
    """
    gc.set_threshold(500_000, 20, 100)


def handle_signals() -> None:
    """SIGTERM and SIGHUP end the command as Ctrl-C does, with partial results,
    wherever in the program they arrive."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:   # not under nohup
        signal.signal(signal.SIGHUP, _interrupt)
    signal.signal(signal.SIGALRM, _interrupt)
    sys.unraisablehook = _unraisable


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Python swallows an interrupt during a finalizer; this sends it again a little later."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(lost)


def open_streams() -> None:
    """Standard streams that were closed (`muster gate >&-`) lead to /dev/null: the command does its work, and
    no file that it opens takes their place."""
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def main() -> None:
    """The `muster` command."""
    open_streams()
    relax_collector()
    handle_signals()
    _leave(ended())


def ended(words: Sequence[str] | None = None) -> int:
    """The exit code of a command line, that of the process by default. User errors are one line on standard
    error; exit codes are those of healthcheck/help/results.md."""
    try:
        code = root.main(words, standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        for line in shown.getvalue().splitlines():
            print(_line(line), file=sys.stderr)  # noqa: T201
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("muster: interrupted", file=sys.stderr)  # noqa: T201
        code = 130
    except MusterError as error:
        print(f"muster: {_line(str(error))}", file=sys.stderr)  # noqa: T201
        code = error.exit_code
    except BrokenPipeError:
        code = 0
    except OSError as error:
        # A full disk behind `muster check > FILE` has no name.
        output = "the output cannot be written" if error.errno in _DISK else ""
        where = clean(error.filename) if error.filename else output
        print(f"muster: {where}{': ' if where else ''}{error.strerror or error}", file=sys.stderr)  # noqa: T201
        code = 2
    except SystemExit as error:
        # click exits so, with 1, when standard output was closed, and leaves this private wrapper;
        # that is no failure.
        code = 0 if type(sys.stdout).__name__.endswith("PacifyFlushWrapper") else error.code
    return code if isinstance(code, int) else 0


def _line(text: str) -> str:
    """What is wrong, in one line without what a terminal would act on: it may have words that were typed, or
    stood in a file. Of a very long one the middle is left out."""
    whole = clean(text, len(text) + _MOST)
    return whole if len(whole) <= _MOST else f"{whole[: _MOST * 2 // 3]} … {whole[-_MOST // 3:]}"


def _leave(code: int) -> None:
    """Ends the process at once: a thread that hangs in a resolver or a dead
    connection must not hold it up."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    except OSError:
        code = code or 2
    os._exit(code)
