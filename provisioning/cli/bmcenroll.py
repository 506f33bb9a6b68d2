"""`muster bmc enroll`: reads controllers' certificates, asks for approval, and pins them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inventory.cli.folded import echo_folded
from inventory.errors import UsageError
from inventory.nodeset import fold
from inventory.text import clean
from provisioning.cli.bmccommon import JSON, NODES, BmcOptions, options

if TYPE_CHECKING:
    from provisioning.bmc.enroll import ControllerEnrolment


@click.command()
@NODES
@click.option("--fingerprints", metavar="FILE",
              help="Pin only what this list names: lines NODE SHA256, as the vendor delivers it.")
@click.option("--yes", is_flag=True, help="Pin what controllers show without asking: trust on first use.")
@click.option("--replace", "replacing", metavar="NODES",
              help="For these nodes, replace a certificate that has changed.")
@click.option("--dry-run", is_flag=True, help="Show what would be pinned and write nothing.")
@JSON
@options
def enroll(
    nodes: str, fingerprints: str | None, yes: bool, replacing: str | None, dry_run: bool, as_json: bool,
    bmc: BmcOptions,
) -> int:
    """Pin the certificates of the controllers of NODES, so that passwords go to nothing else.

    This does not log in: the controller only shows its certificate. A changed certificate is refused until
    you give --replace. Controllers with `tls: verify` or a file of authorities need no pin.

    \b
    muster bmc enroll @rack7 --fingerprints delivered.txt     compared with what the vendor says
    muster bmc enroll @rack7                                  shows the fingerprints and asks
    muster bmc enroll gpu007 --replace gpu007                 its board was exchanged

    A line of the list may be the node's name and what `openssl x509 -noout -fingerprint -sha256` prints.

    Exit: 0 all pinned or known, 1 some refused, 2 usage or no terminal to ask on, 3 some not reached.
    """
    from inventory.model import Speaks
    from provisioning.bmc import enroll as steps
    from provisioning.bmc import pins

    if yes and fingerprints is not None:
        raise UsageError("--yes and --fingerprints exclude each other: give one")
    named, _ = bmc.chosen(nodes)
    looking = [node for node in named if node.bmc is not None and node.bmc.speaks is Speaks.REDFISH]
    if left := [node.name for node in named if node not in looking]:
        click.echo(f"muster: {fold(left)}: IPMI has no certificates", err=True)
    to_replace = {node.name for node in bmc.chosen(replacing)[0]} if replacing is not None else set()
    if others := to_replace - {node.name for node in looking}:
        raise UsageError(
            f"--replace names {fold(others)}, which {'is' if len(others) == 1 else 'are'} not among {nodes}")
    at = bmc.folder
    expected = pins.expected(Path(fingerprints).expanduser()) if fingerprints is not None else None
    found = list(steps.decided(steps.looked(looking, bmc.seconds, bmc.fanout) if looking else {},
                               pins.read(at), expected, to_replace))
    for shown, names in steps.shared(found).items():
        click.echo(f"muster: warning: {fold(names)} show the same certificate {pins.shown(shown)}: a holder "
                   "of its key can pose as all of them; make new certificates there", err=True)
    done = not dry_run and _approved(found, yes or expected is not None)
    if done:
        steps.written(at, found)
    if as_json:
        click.echo(json.dumps({"schema": "muster.bmc/1", "nodes": [_document(one, done) for one in found]},
                              indent=1))
    else:
        _show(found, done=done, listed=expected is not None)
        if done and yes and any(one.outcome.writes for one in found):
            click.echo("Trusted on first use: only the network vouches for these certificates. Compare them "
                       "when you can.")
    if any(one.outcome.refused for one in found):
        return 1
    return 3 if any(one.outcome is steps.PinOutcome.UNREACHED for one in found) else 0


def _approved(found: Sequence[ControllerEnrolment], sure: bool) -> bool:
    """Whether the new certificates may be pinned; raises UsageError if there is no terminal to ask on."""
    writing = [one for one in found if one.outcome.writes]
    if sure or not writing:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to confirm the certificates of "
                         f"{fold(one.node for one in writing)}; nothing was written: give --fingerprints "
                         "FILE to compare them, or --yes to trust on first use")
    for line in _prints(writing):
        click.echo(line, err=True)
    answer: str = click.prompt(
        f"Compare with the consoles. Pin these certificates of {fold(one.node for one in writing)}? (yes/no)",
        default="no", show_default=False, err=True)
    return answer.strip().lower() == "yes"


def _prints(found: Sequence[ControllerEnrolment]) -> list[str]:
    from provisioning.bmc import pins

    wide = max(len(one.node) for one in found)
    return [f"  {one.node:{wide}}  {pins.shown(one.shown)}"
            + (f"  (instead of {pins.shown(one.pinned)})" if one.pinned else "") for one in found]


def _show(found: Sequence[ControllerEnrolment], *, done: bool, listed: bool) -> None:
    by_label: dict[str, list[str]] = {}
    for one in found:
        by_label.setdefault(_label(one, done), []).append(one.node)
    wide = max(map(len, by_label), default=0)
    for label, names in by_label.items():
        click.echo(f"{label:{wide}}  {len(names):5}  {fold(names)}")
    writing = [one for one in found if one.outcome.writes]
    if writing and not listed:
        for line in _prints(writing):
            click.echo(line)
    echo_folded((one.node, clean(one.why)) for one in found if one.why)


def _label(one: ControllerEnrolment, done: bool) -> str:
    return one.outcome.value.replace(
        "to pin", "pinned").replace("to replace", "replaced") if done else one.outcome.value


def _document(one: ControllerEnrolment, done: bool) -> dict[str, Any]:
    return {
        "node": one.node, "outcome": _label(one, done), "shown": one.shown or None,
        "pinned": one.pinned or None, "why": one.why or None, "vouched": one.vouched,
        "written": done and one.outcome.writes}
