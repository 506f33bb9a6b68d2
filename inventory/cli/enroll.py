"""`muster inventory enroll`: fetch host keys from nodes, have them approved, and pin them."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from inventory.cli import completing
from inventory.cli.formatted import formats
from inventory.cli.limits import FANOUT, LIMIT, given
from inventory.cli.number import FiniteNumber
from inventory.enroll import Decision, EnrolmentOutcome, shared
from inventory.enrolment import NodeEnrolment, decided, scanned, subject_of, written
from inventory.errors import InventoryError, UsageError
from inventory.expect import Expectations, read_expected
from inventory.hostkeys import fingerprint, key_type
from inventory.limits import limited
from inventory.model import Inventory, Node
from inventory.nodeset import expand, fold
from inventory.reasons import fold_reasons
from inventory.sshconfig import SshConfig, default_config
from inventory.sshjump import parse_jump
from inventory.sshtarget import target_for
from inventory.text import clean


@click.command(short_help="Fetch host keys from nodes and pin them in known_hosts.")
@click.argument("nodes", shell_complete=completing.nodes)
@click.option("--expect", metavar="PATH",
              help="Pin only keys that are in this file, or in PATH/NODE.log and NODE.txt (console logs).")
@click.option("--yes", is_flag=True, help="Pin without asking: trust on first use.")
@click.option("--replace", "replacing", metavar="NODES", help="Replace the changed keys of these nodes.")
@click.option("--known-hosts", metavar="FILE",
              help="Pin here. Default: the node's known_hosts_file, else ~/.ssh/muster_known_hosts.")
@click.option("--dry-run", is_flag=True, help="Fetch the keys and show what would change; write nothing.")
@click.option("--inventory", "-i", "file", metavar="FILE",
              help="Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc.")
@click.option("--timeout", metavar="S", type=FiniteNumber(min=1, max=86400),
              help="Deadline of asking all nodes, in seconds. [by nodes, fan-out and limits]")
@LIMIT
@FANOUT
@formats()
def enroll(
    nodes: str, expect: str | None, yes: bool, replacing: str | None, known_hosts: str | None, dry_run: bool,
    file: str | None, timeout: float | None, fanout: int, fmt: str,
) -> int:
    """Fetch the nodes' SSH host keys and pin new ones, so that checks can reach the nodes.

    Connects to each node as a check does (ssh_config, jump hosts). The node proves each of its keys; there is
    no login. A key is pinned if PATH lists it, else after you confirm its fingerprint. PATH holds known_hosts
    lines, lines of ssh-keygen -l, lines NAME SHA256:..., or a console log with cloud-init's block of host
    keys.

    Keys go to ~/.ssh/muster_known_hosts, where names are never hashed: hashed names must be tried one by one.
    What ssh's own known_hosts files hold counts as well; for ssh itself, add the file to its
    UserKnownHostsFile.

    \b
    muster inventory enroll 'gpu[001-064]' --expect consoles/      compared with consoles/gpu001.log and so on
    muster inventory enroll @train                                 shows the fingerprints and asks
    muster inventory enroll @train --yes                           trusts the network this once
    muster inventory enroll gpu007 --replace gpu007                after a reinstall; keeps FILE.old

    NODES may also be jump hosts and, without an inventory, any host names.

    Exit: 0 all pinned or known, 1 some refused, 2 usage or no terminal to ask on, 3 some not reached,
    130 interrupted.
    """
    if yes and expect is not None:
        raise UsageError(
            "--yes and --expect exclude each other: --expect checks the keys, --yes trusts them unchecked")
    config = default_config()
    find = _finder(file)
    chosen = limited(find(nodes), given())
    to_replace = {node.name for node in find(replacing)} if replacing is not None else set()
    if others := to_replace - {node.name for node in chosen}:
        raise UsageError(
            f"--replace names {fold(others)}, which {'is' if len(others) == 1 else 'are'} not among {nodes}")
    expected = (read_expected(Path(expect).expanduser(), [node.name for node in chosen]) if expect is not None
                else None)
    tried = try_to_pin(chosen, config, expected, to_replace, known_hosts=known_hosts, timeout=timeout,
                       fanout=fanout, yes=yes, dry_run=dry_run)
    subjects, unasked = tried.subjects, tried.unasked
    # A reader that went away (`| head`) does not change what was found.
    with contextlib.suppress(BrokenPipeError):
        if fmt == "json":
            click.echo(json.dumps(_document(subjects, tried.clones), indent=2))
        else:
            show_enrolment(subjects, yes=yes)
    show_notes(subjects)
    if unasked:
        raise UsageError(f"no terminal to confirm the keys of {fold(each.node.name for each in unasked)}; "
                         "nothing changed. Give --expect PATH to check them, or --yes to trust on first use")
    if any(each.decision.outcome.refused for each in subjects):
        return 1
    return 3 if any(each.decision.outcome is EnrolmentOutcome.UNREACHED for each in subjects) else 0


@dataclass(frozen=True)
class PinAttempt:
    """What became of each node's keys; with `unasked` ones nothing was written, as there was no terminal to
    ask on. `clones` are keys that several nodes show."""

    subjects: list[NodeEnrolment]
    unasked: list[NodeEnrolment]
    clones: Mapping[bytes, tuple[str, ...]]


def try_to_pin(
    chosen: Sequence[Node], config: SshConfig, expected: Expectations | None,
    to_replace: Collection[str] = (), *, known_hosts: str | None = None, timeout: float | None = None,
    fanout: int, yes: bool, dry_run: bool = False,
) -> PinAttempt:
    """Fetches the nodes' keys, warns of clones, asks where that is needed, and pins what was approved."""
    subjects = scanned([subject_of(node, config, known_hosts) for node in chosen], config, timeout, fanout)
    subjects = decided(subjects, expected, to_replace)
    clones = shared((each.node.name, each.target.known_hosts_name, each.keys) for each in subjects)
    for warning in _clones(clones):
        click.echo(f"muster: warning: {warning}", err=True)
    unasked: list[NodeEnrolment] = []
    if not dry_run:
        subjects, unasked = _approved(subjects, yes=yes)
        if not unasked:
            subjects = written(subjects)
    return PinAttempt(subjects, unasked, clones)


def _finder(file: str | None) -> Callable[[str], list[Node]]:
    """A function that finds nodes by a node set: in the inventory and its jump hosts, or by name alone."""
    from inventory.discover import from_names
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from inventory.select import select

    path = find_inventory(file)
    if path is None:
        return lambda text: list(from_names(text))
    found = load_inventory(path)

    def find(text: str) -> list[Node]:
        try:
            return select(found, text)
        except InventoryError:
            known = {**jump_hosts(found), **found.nodes}
            if text in known:       # an IPv6 address is no node set
                return [known[text]]
            names = expand(text, found.groups, found.nodes.keys())
            if not names or not all(name in known for name in names):
                raise
            return [known[name] for name in names]
    return find


def jump_hosts(inventory: Inventory) -> dict[str, Node]:
    """The jump hosts of all nodes, and those of each: ssh_config may route the nearest through others."""
    hosts: dict[str, Node] = {}
    jumps = list(dict.fromkeys(target_for(node).proxy_jump for node in inventory))
    for jump in jumps:      # it grows meanwhile
        hops = ([Node(hop.host, user=hop.user, port=hop.port) for hop in parse_jump(jump)] if jump is not None
                else [])
        hosts |= {hop.name: hop for hop in hops}
        further = target_for(hops[0]).proxy_jump if hops else None
        if further not in jumps:
            jumps.append(further)
    return hosts


def _approved(subjects: list[NodeEnrolment], *, yes: bool) -> tuple[list[NodeEnrolment], list[NodeEnrolment]]:
    """The same, without what the user declined; and those that need an answer when there is no terminal."""
    waiting = [each for each in subjects if each.decision.outcome.writes and not each.decision.vouched]
    if yes or not waiting:
        return subjects, []
    unasked = [each for each in waiting if each.decision.outcome is not EnrolmentOutcome.ADD]
    said = False
    if sys.stdin.isatty():
        for line in _fingerprints(waiting):
            click.echo(line, err=True)
        names = fold(each.node.name for each in waiting)
        question = f"Compare with the consoles. Pin these host keys of {names}? (yes/no)"
        answer: str = click.prompt(question, default="no", show_default=False, err=True)
        unasked, said = [], answer.strip().lower() == "yes"
    if said:
        return subjects, []
    names_ = {each.node.name for each in waiting}
    return ([_unapproved(each, declined=not unasked) if each.node.name in names_ else each
             for each in subjects], unasked)


def _unapproved(subject: NodeEnrolment, *, declined: bool) -> NodeEnrolment:
    if subject.decision.outcome is EnrolmentOutcome.ADD:
        return replace(subject, decision=Decision(EnrolmentOutcome.KNOWN, left_out=subject.decision.add))
    if declined:
        return replace(subject, decision=Decision(EnrolmentOutcome.DECLINED, reason="the answer was not yes"))
    return subject


def _fingerprints(subjects: Sequence[NodeEnrolment]) -> list[str]:
    """One line for each key of each node; nodes that show the same key share a line."""
    shown: dict[tuple[str, str, str], list[str]] = {}
    for each in subjects:
        for blob in each.decision.add:
            shown.setdefault((key_type(blob), fingerprint(blob), ""), []).append(each.node.name)
        for key in each.decision.drop:
            shown.setdefault((key.type, fingerprint(key.blob), f"  (old, {key.where}, goes)"),
                             []).append(each.node.name)
    rows = [(fold(names), *key) for key, names in shown.items()]
    wide = max((len(row[0]) for row in rows), default=0)
    return [f"  {clean(names):{wide}}  {type_:19}  {print_}{clean(note)}"
            for names, type_, print_, note in rows]


def show_enrolment(subjects: Sequence[NodeEnrolment], *, yes: bool) -> None:
    """Prints the outcomes, the new fingerprints, and why something is not as it should be."""
    groups: dict[str, list[str]] = {}
    for each in subjects:
        groups.setdefault(each.label, []).append(each.node.name)
    wide = max(map(len, groups))
    for label, names in groups.items():
        click.echo(f"{label:{wide}}  {len(names):5}  {fold(names)}")
    changing = [each for each in subjects if each.decision.outcome.writes]
    if changing and not all(each.decision.vouched for each in changing):
        for line in _fingerprints(changing):
            click.echo(line)
    for folded in fold_reasons(_reasons(subjects)):
        click.echo(f"{folded.names}: {clean(folded.text, 1500)}")
    changed = [each.node.name for each in subjects if each.decision.outcome is EnrolmentOutcome.CHANGED]
    if changed:
        names_ = shlex.quote(fold(changed))
        were = "was" if len(changed) == 1 else "were"
        click.echo(f"If {fold(changed)} {were} reinstalled: muster inventory enroll {names_} --replace "
                   f"{names_}")
    if yes and any(each.done for each in changing):
        click.echo("Trusted on first use: no one has checked these keys. Compare them with the consoles when "
                   "you can.")
    files = dict.fromkeys(file for each in subjects if each.done for file in each.written_files)
    for file in files:
        click.echo(f"Written: {clean(file)}")


def show_notes(subjects: Sequence[NodeEnrolment]) -> None:
    """Prints on standard error what else should be known of these."""
    for note in _notes(subjects):
        click.echo(f"muster: {note}", err=True)


def _reasons(subjects: Iterable[NodeEnrolment]) -> Iterator[tuple[str, str]]:
    """Why something is not as it should be, by node."""
    for each in subjects:
        reason = each.decision.reason
        if each.stage is not None:
            reason = f"{each.stage}: {reason}"
        if reason:
            yield each.node.name, reason


def _notes(subjects: Sequence[NodeEnrolment]) -> list[str]:
    notes = []
    left_out: dict[str, list[str]] = {}
    unread: dict[str, list[str]] = {}
    elsewhere: dict[str, list[tuple[NodeEnrolment, int]]] = {}
    for each in subjects:
        for key in each.decision.elsewhere:
            elsewhere.setdefault(key.file, []).append((each, key.line))
        if each.decision.left_out:
            left_out.setdefault(", ".join(map(key_type, each.decision.left_out)), []).append(each.node.name)
        if each.decision.add and each.file not in each.target.known_hosts_files:
            unread.setdefault(each.file, []).append(each.node.name)
    for types, names in left_out.items():
        notes.append(f"{fold(names)}: keys not pinned, because they are not expected or approved:  {types}")
    for file, names in unread.items():
        notes.append(f"{clean(file)} is not among the files that checks of {fold(names)} read; name it as "
                     "known_hosts_file")
    for file, old in elsewhere.items():
        nodes = {each.node.name: each.target.known_hosts_name for each, _ in old}
        lines = sorted({line for _, line in old})
        places = f"line{'s' * (len(lines) > 1)} " + ", ".join(map(str, lines[:10]))
        places += f" and {len(lines) - 10} more" if len(lines) > 10 else ""
        name = shlex.quote(next(iter(nodes.values()))) if len(nodes) == 1 else "NAME"
        notes.append(f"{clean(file)} still holds an old key of {fold(nodes)} ({places}), which stays "
                     "trusted, as muster does not edit that file; remove it with: ssh-keygen -R "
                     f"{name} -f {clean(shlex.quote(file))}")
    return notes


def _clones(keys: Mapping[bytes, tuple[str, ...]]) -> list[str]:
    """One line for all the keys that the same nodes show."""
    by_nodes: dict[tuple[str, ...], list[bytes]] = {}
    for blob, names in keys.items():
        by_nodes.setdefault(names, []).append(blob)
    return [f"{fold(names)} show the same host key {key_type(blobs[0])} {fingerprint(blobs[0])}"
            + (f" (and {len(blobs) - 1} more)" if len(blobs) > 1 else "")
            + ": probably a cloned image. Each of these nodes can pose as the others; make new keys there "
            "(rm /etc/ssh/ssh_host_*; ssh-keygen -A)" for names, blobs in by_nodes.items()]


def _document(subjects: Iterable[NodeEnrolment], clones: Mapping[bytes, tuple[str, ...]]) -> dict[str, Any]:
    return {
        "schema": "muster.enroll/1",
        "nodes": [{
            "node": each.node.name, "name": each.target.known_hosts_name, "file": each.file,
            "outcome": each.label, "refused": each.decision.outcome.refused, "written": each.done,
            "vouched": each.decision.vouched, "stage": each.stage, "reason": each.decision.reason or None,
            "offered": [_key(blob) for blob in each.keys],
            "added": [_key(blob) for blob in each.decision.add],
            "dropped": [{**_key(key.blob), "where": key.where} for key in each.decision.drop],
            "elsewhere": [{**_key(key.blob), "where": key.where} for key in each.decision.elsewhere],
        } for each in subjects],
        "shared_keys": [{**_key(blob), "nodes": list(names)} for blob, names in clones.items()],
    }


def _key(blob: bytes) -> dict[str, str]:
    return {"type": key_type(blob), "fingerprint": fingerprint(blob)}
