"""`muster baseline learn`: propose a baseline from what nodes, saved logs or a saved sweep say."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from healthcheck.baseline.gather import Gathered
    from healthcheck.baseline.model import Baseline, Digest, Scope
    from healthcheck.ruleset import Ruleset

_LEVELS = ("exact", "driver", "kernel", "series", "sku")
_SHOWN = 5      # caveats of single nodes that are told, before the rest is counted


@click.command()
@click.argument("nodes", metavar="[NODES|FILE...]", nargs=-1)
@click.option("--from", "files", metavar="FILE", multiple=True, help="Learn from saved kernel logs; with it the arguments are files too.")
@click.option("--replay", metavar="DIR", help="Learn from a sweep saved with `muster check --save`; touches no node.")
@click.option("--output", "-o", metavar="B", required=True, help="The baseline's file; a folder where scopes are to be a file each.")
@click.option("--merge", is_flag=True, help="Add to the baseline that B is; what is approved there stays approved.")
@click.option("--sku", metavar="NAME", help="The SKU of these nodes. Default: that of the inventory.")
@click.option("--scope", "level", type=click.Choice(_LEVELS), default="kernel", show_default=True,
              help="For what it holds: SKU and kernel; exact adds driver and firmware; series takes 6.5 of a kernel.")
@click.option("--expires", metavar="SPAN", callback=span(86400, 999999 * 86400), help="What is not seen for so long expires. [180d]")
@click.option("--inventory", "-i", metavar="FILE", help="Inventory file. Default: MUSTER_INVENTORY, ./muster.yaml, ~/.config, /etc.")
@click.option("--local", is_flag=True, help="Learn from this machine, without SSH.")
@click.option("--rules", metavar="DIR", help="A folder of site rules and catalogue entries over the packaged ones.")
@click.option("--timeout", metavar="SPAN", callback=span(1, 86400), help="Deadline of the whole sweep: 90, 90s, 2m. [120s]")
@click.option("--fanout", metavar="N", type=click.IntRange(1, 1024), default=64, show_default=True, help="Nodes at a time.")
def learn(
    nodes: tuple[str, ...], files: tuple[str, ...], replay: str | None, output: str, merge: bool, sku: str | None, level: str,
    expires: float | None, inventory: str | None, local: bool, rules: str | None, timeout: float | None, fanout: int,
) -> int:
    """Propose a baseline from what NODES say, which should be alike and well. Nothing is accepted until somebody approves it.

    A saved log's name is the node's: gpu001.dmesg.gz is of gpu001. A file of several boots counts as several; a boot that B was
    learned of already counts once.

    \b
    muster baseline learn 'gpu[001-064]' -o h100.yaml
    muster baseline learn 'gpu[001-064]' -o h100.yaml --merge            a week later: more boots
    muster baseline learn --sku dgx-h100 -o h100.yaml --from logs/*.dmesg
    muster check --save monday; muster baseline learn --replay monday -o h100.yaml

    Exit: 0 learned, 2 usage, or there is nothing to learn from, 3 learned, but some nodes or files had nothing to learn from.
    """
    from healthcheck import rulesfolder
    from healthcheck.baseline.scope import Level, by_scope
    from healthcheck.ruleset import load_ruleset

    target = Path(output)
    if not target.parent.is_dir():
        raise UsageError(f"--output {output}: no folder {target.parent}")
    if target.is_file() and not merge:
        raise UsageError(f"--output {output}: exists already; --merge adds to it")
    ruleset = load_ruleset(rulesfolder.folders(rules))
    if sku is not None and sku not in ruleset.skus:
        raise UsageError(f"--sku {sku}: no such SKU; there are {', '.join(sorted(ruleset.skus))}")
    if files:
        found = _of_files((*files, *nodes), sku)
    elif len(nodes) > 1:
        raise UsageError(f"NODES is one node set, got {len(nodes)} words: quote it, as 'gpu[001-064]'; files go behind --from")
    elif replay is not None:
        found = _of_sweep(replay, nodes[0] if nodes else None, sku)
    else:
        found = _swept(nodes[0] if nodes else None, inventory, local, sku, ruleset, timeout, fanout)
    _tell("not learned from", found.left_out)
    _tell("learned from a part of", found.caveats)
    if not found.digests:
        raise UsageError("there is no kernel log to learn from")
    groups = by_scope(found.digests, Level(level))
    for path, scope, digests in _places(target, groups):
        _learn(path, scope, digests, merge, expires, ruleset)
    return 3 if found.left_out else 0


def _places(target: Path, groups: dict[Scope, list[Digest]]) -> list[tuple[Path, Scope, list[Digest]]]:
    """Which file each scope goes to; raises UsageError where one file was given and there are several."""
    from healthcheck.baseline.scope import words

    if target.is_dir():
        return [(target / f"{_named(scope)}.yaml", scope, digests) for scope, digests in groups.items()]
    if len(groups) > 1:
        told = "; ".join(f"{words(scope)} ({len({digest.node for digest in digests})} nodes)" for scope, digests in groups.items())
        raise UsageError(f"these nodes are of {len(groups)} scopes: {clean(told, 300)}: give a folder as --output, name fewer nodes, or "
                         "choose a wider --scope (series, sku)")
    return [(target, scope, digests) for scope, digests in groups.items()]


def _named(scope: Scope) -> str:
    from healthcheck.baseline.gather import node_of

    parts = (scope.sku or "any", scope.kernel, scope.driver, scope.firmware.replace(" ", "-"))
    return node_of("-".join(part.replace("/", "-") for part in parts if part))


def _learn(path: Path, scope: Scope, digests: list[Digest], merge: bool, expires: float | None, ruleset: Ruleset) -> None:
    """Writes one baseline, and says what is in it."""
    from healthcheck.baseline.file import stamp, write
    from healthcheck.baseline.fileload import load
    from healthcheck.baseline.flags import flagged
    from healthcheck.baseline.learn import learn as learned
    from healthcheck.baseline.learn import merge as merged
    from healthcheck.baseline.learn import unlearned
    from healthcheck.baseline.scope import words

    assert ruleset.kernel is not None  # noqa: S101  (narrowing; loaded rules have a catalogue)
    catalogue = ruleset.kernel.catalogue
    day = dt.datetime.now(dt.timezone.utc).date().isoformat()
    old, since = None, stamp(path)
    if since is not None:
        if not merge:
            raise UsageError(f"--output {path}: exists already; --merge adds to it")
        old = load(path, catalogue)
        if old.scope != scope:
            raise UsageError(f"--merge: {path} is for {words(old.scope)}, and these nodes are {clean(words(scope), 200)}: another file, "
                             "or the --scope that it was learned with")
    digests = unlearned(digests, {})
    fresh = unlearned(digests, old.looks if old is not None else {})
    made = learned(fresh, scope, day, path.stem)
    whole = merged(old, made) if old is not None else made
    if expires is not None:
        whole = replace(whole, expires_days=int(expires // 86400))
    whole = flagged(replace(whole, file=str(path)), catalogue)
    write(whole, path, since)
    click.echo(f"written: {path}, for {clean(words(scope), 200)}: {_summary(whole, len(fresh), len(digests))}")
    if whole.proposed:
        click.echo(f"next: muster baseline review {path}")


def _summary(whole: Baseline, fresh: int, given: int) -> str:
    """What it holds, and how many of the boots were new to it."""
    from healthcheck.cli.baselinereview import many

    flags = sum(bool(one.flags) for one in whole.proposed.values())
    known = f", {given - fresh} of the {given} boots had been learned before" if fresh < given else ""
    few = "; of fewer than 3 boots little can be said" if whole.boots < 3 else ""
    return (f"{len(whole.known)} templates approved, {len(whole.proposed)} proposed, {flags} of them flagged; "
            f"of {many(whole.nodes, 'node')} and {many(whole.boots, 'boot')}{known}{few}")


def _tell(what: str, nodes: dict[str, str]) -> None:
    """On standard error, the first few; with hundreds of nodes the rest is counted."""
    for node, why in list(nodes.items())[:_SHOWN]:
        click.echo(f"muster: {what} {node}: {clean(why, 300)}", err=True)
    if len(nodes) > _SHOWN:
        click.echo(f"muster: {what} {len(nodes) - _SHOWN} more", err=True)


def _of_files(files: tuple[str, ...], sku: str | None) -> Gathered:
    from healthcheck.baseline.forms import MOST_BYTES
    from healthcheck.baseline.gather import Gathered, of_files

    whole = Gathered()
    for name in files:
        try:
            if Path(name).is_char_device():     # reading it would wait for what the kernel says next
                raise UsageError(f"--from {short(name)}: is a device; --local learns from this machine, and sudo dmesg -x from a pipe")
            with open(name, "rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"--from {short(name)}: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise UsageError(f"--from {short(name)}: is longer than {MOST_BYTES >> 20} MiB")
        found = of_files({name: data}, sku or "")
        whole.digests += found.digests
        whole.left_out |= found.left_out
        whole.caveats |= found.caveats
    return whole


def _of_sweep(folder: str, nodes: str | None, sku: str | None) -> Gathered:
    from healthcheck.baseline.gather import of_recordings
    from healthcheck.saved import load_manifest, recordings
    from inventory.discover import from_names

    manifest = load_manifest(Path(folder))
    wanted = {node.name for node in from_names(nodes)} if nodes is not None else {node.name for node in manifest.nodes}
    if missing := wanted - {node.name for node in manifest.nodes}:
        raise UsageError(f"--replay {folder}: holds no look at {min(missing)}")
    skus = {node.name: sku or node.sku or manifest.default_sku or "" for node in manifest.nodes}
    return of_recordings((look for look, _ in recordings(Path(folder), manifest) if look.node in wanted), skus)


def _swept(
    nodes: str | None, inventory: str | None, local: bool, sku: str | None, ruleset: Ruleset, timeout: float | None, fanout: int,
) -> Gathered:
    """One sweep that asks for the kernel's log alone; nothing of it is kept."""
    from healthcheck import program, reply, sweep
    from healthcheck.baseline.gather import of_recordings, probes
    from healthcheck.cli.check import choose
    from healthcheck.report.progress import progress
    from inventory.transport.base import Transport

    chosen = choose(nodes, inventory, local, False, ruleset)
    transport: Transport
    if local:
        from inventory.transport.local import LocalTransport

        transport = LocalTransport()
    else:
        from inventory.transport.remote import RemoteTransport

        transport = RemoteTransport()
    limits, asked, looks = sweep.limits(timeout, fanout), probes(), []
    with progress(len(chosen), "baseline learn") as bar:
        for answer in transport.run(list(chosen), program.build(asked, nvml=False), limits):
            look = reply.within(reply.decode(answer, limit=limits.reply_bytes), asked)
            looks.append(look)
            bar.done(look.node, look.host is not None)
    order = {node.name: at for at, node in enumerate(chosen)}
    return of_recordings(sorted(looks, key=lambda look: order[look.node]), {node.name: sku or node.sku or "" for node in chosen})
