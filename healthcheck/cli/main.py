"""The root command. It knows its commands by name only and loads each on use, so that the gate of a launch script starts lean."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Collection
from types import FrameType

import click

from inventory.errors import MusterError

COMMANDS = {
    "check": ("healthcheck.cli.check:check", "Sweep nodes and say what is wrong."),
    "explain": ("healthcheck.cli.explain:explain", "Say what a rule checks, why, and where it is from."),
    "inventory": ("inventory.cli.inventory:inventory", "Look at the inventory: check, show, nodes."),
    "demo": ("provisioning.cli.demo:demo", "Start a loopback fleet with planted faults, and find them."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(COMMANDS)}"
            ctx.fail(f"no such command: {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="cluster-muster", prog_name="muster")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Bring up GPU training clusters and keep them healthy.

    \b
    muster check 'gpu[001-064]'          sweep nodes by name, taking addresses from ~/.ssh/config
    muster check --inventory muster.yaml sweep all nodes of an inventory
    muster check --local                 look at this machine
    muster demo                          see it find planted faults on a loopback fleet

    \b
    Shell completion: eval "$(_MUSTER_COMPLETE=bash_source muster)"      (or zsh_source, fish_source)
    """
    ctx.meta["muster.skus"] = _known_skus


def _known_skus() -> Collection[str]:
    """The names of all SKUs, for commands of packages that know nothing of rules."""
    from healthcheck.ruleset import load_ruleset
    from healthcheck.rulesfolder import folders

    return tuple(load_ruleset(folders(None)).skus)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The `muster` command. What a person can mend is one line on standard error; exit codes are those of DESIGN section 8."""
    signal.signal(signal.SIGTERM, _interrupt)
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
