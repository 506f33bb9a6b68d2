"""`muster bmc accounts`: what accounts of controllers lack of what the policy wants, and setting it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.cli.chosen import who
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.folded import echo_folded
from inventory.errors import MusterError, UsageError
from inventory.model import Node
from inventory.text import clean
from provisioning.cli.bmccommon import JSON, NODES, BmcOptions, document, options

if TYPE_CHECKING:
    from provisioning.bmc.base import BmcError


@click.command()
@NODES
@click.option("--apply", is_flag=True, help="Set them. Without this, only show what would be done.")
@click.option("--renew", is_flag=True, help="Replace passwords that work, too.")
@click.option("--rules", metavar="DIR",
              help="A folder of site rules; `accounts:` of its bringup.yaml overrides the packaged one.")
@YES_MANY
@JSON
@options
def accounts(
    nodes: str, apply: bool, renew: bool, rules: str | None, yes: bool, as_json: bool, bmc: BmcOptions,
) -> int:
    """Give the controllers of NODES the accounts that `accounts:` of bringup.yaml wants: a random password
    for each, and an operator's account.

    A new password is kept in the site's folder or keyring first, then the controller is changed, and a login
    with it is tried; the old one is kept until then. After a kill, type the same again. No password is ever
    printed.

    \b
    muster bmc accounts @rack7                what would be done
    muster bmc accounts @rack7 --apply
    muster bmc accounts gpu007 --renew --apply

    Exit: 0 as wanted or done, 1 some are to be done or were refused, 2 usage, 3 some were not reached.
    """
    from healthcheck.config.rulesfolder import folders
    from provisioning.bmc.accounts import Accounts
    from provisioning.bmc.base import BmcError
    from provisioning.bmc.connect import accounts_of
    from provisioning.bringup.policy.load import load

    named, _ = bmc.chosen(nodes)
    desired = load(folders(rules)).accounts
    if not desired.wanted:
        raise UsageError("bringup.yaml wants nothing of accounts; say there: accounts: {password: random, "
                         "store: {folder: DIR}} (muster help bmc)")
    at = bmc.folder
    setting: Accounts = accounts_of(desired, at, bmc.seconds)
    if apply:
        confirm("set accounts", [node.name for node in named], stops=False, yes=yes)

    def one(node: Node) -> str:
        return setting.settle(node, renew=renew) if apply else (
            setting.plan(node) or ("a new password" if renew else ""))

    found: dict[str, dict[str, object]] = {}
    for node, answer in _asked(named, one, at if apply else None, bmc.fanout):
        if isinstance(answer, BmcError):
            unsure = apply and answer.done is None
            found[node.name] = {"state": "not known" if unsure else "refused",
                                "reason": answer.wrong.value, "message": clean(answer.message, 300)}
        else:
            found[node.name] = {"state": ("done" if apply else "to do") if answer else "as wanted",
                                "reason": None, "message": clean(answer, 300)}
    if as_json:
        document(named, {name: {"accounts": value} for name, value in found.items()})
    else:
        echo_folded((node.name, _line(found[node.name])) for node in named)
        if not apply and any(one["state"] == "to do" for one in found.values()):
            click.echo("Nothing changed; --apply does it.")
    return _exit(found.values())


def _asked(
    nodes: list[Node], one: Callable[[Node], str], ledgered: Path | None, fanout: int,
) -> Iterator[tuple[Node, str | BmcError]]:
    """What comes of each, in the order in which they end; with `ledgered` each is in the ledger before."""
    from concurrent.futures import ThreadPoolExecutor, as_completed
    from contextlib import nullcontext

    from healthcheck.store import ledger
    from healthcheck.store.file import opened
    from provisioning.bmc.base import BmcError, BmcErrorReason

    def answer(node: Node) -> str | BmcError:
        try:
            return one(node)
        except BmcError as problem:
            return problem
        except MusterError as problem:
            return BmcError(BmcErrorReason.NO_SECRET, str(problem))

    with (opened(ledgered, make=True) if ledgered is not None else nullcontext() as store,
          ThreadPoolExecutor(max(1, min(fanout, len(nodes))), thread_name_prefix="bmc") as pool):
        lines: dict[str, int] = {}
        if store is not None:
            with store.writing() as db:
                lines = {node.name: ledger.begin(db, time.time(), who(), "bmc accounts", node.name,
                                                 "as the policy wants") for node in nodes}
        futures = {pool.submit(answer, node): node for node in nodes}
        for future in as_completed(futures):
            node, found = futures[future], future.result()
            if store is not None:
                outcome = clean(str(found) or "nothing to do", 200)
                with store.writing() as db:
                    ledger.finish(db, lines[node.name], outcome, time.time())
            yield node, found


def _line(found: dict[str, object]) -> str:
    words = [str(found[key]) for key in ("state", "reason", "message") if found[key]]
    return ": ".join(words)


def _exit(found: Iterable[dict[str, object]]) -> int:
    reasons = {one["reason"] for one in found if one["reason"]}
    states = {one["state"] for one in found}
    if reasons & {"unreachable", "timeout", "busy", "certificate"}:
        return 3
    return int(bool(states & {"to do", "refused", "not known"}))
