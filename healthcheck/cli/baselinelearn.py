"""`muster baseline learn`: propose a baseline from nodes, saved logs or a saved sweep."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.check import choose
from healthcheck.cli.options import CATALOGUE, INVENTORY, TIMEOUT, check_sku
from healthcheck.report.progress import progress
from inventory.cli.limits import FANOUT, LIMIT, announce
from inventory.cli.span import span
from inventory.discover import from_names
from inventory.errors import UsageError
from inventory.reasons import fold_reasons
from inventory.text import clean, many, short
from inventory.transport.choose import transport_of

if TYPE_CHECKING:
    from healthcheck.baseline.gather import LearningNotes
    from healthcheck.baseline.learn import Learner
    from healthcheck.baseline.scope import ScopeLevel
    from healthcheck.kernellog.model import Baseline, Digest, Scope
    from healthcheck.ruleset.ruleset import Ruleset

_LEVELS = ("exact", "driver", "kernel", "series", "sku")
_SHOWN = 5      # caveats of single nodes that are printed; the rest is counted


@click.command()
@click.argument("nodes", metavar="[NODES|FILE...]", nargs=-1)
@click.option("--from", "files", metavar="FILE", multiple=True,
              help="Learn from saved kernel logs; the arguments are then files too.")
@click.option("--replay", metavar="DIR",
              help="Learn from a sweep saved with `muster check --save`; touches no node.")
@click.option("--output", "-o", metavar="B", required=True,
              help="The baseline's file, or a folder for one file per scope.")
@click.option("--merge", is_flag=True, help="Add to the existing baseline B; approvals stay.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="The nodes' SKU. Default: from the inventory.")
@click.option("--scope", "level", type=click.Choice(_LEVELS), default="kernel", show_default=True,
              help="The baseline's scope: SKU and kernel; exact adds driver and firmware; series takes 6.5 "
                   "of a kernel.")
@click.option("--expires", metavar="SPAN", callback=span(86400, 999999 * 86400),
              help="Templates not seen for this long expire. [180d]")
@INVENTORY
@click.option("--local", is_flag=True, help="Learn from this machine, without SSH.")
@CATALOGUE
@TIMEOUT
@LIMIT
@FANOUT
def learn(
    nodes: tuple[str, ...], files: tuple[str, ...], replay: str | None, output: str, merge: bool,
    sku: str | None, level: str, expires: float | None, inventory: str | None, local: bool, rules: str | None,
    timeout: float | None, fanout: int,
) -> int:
    """Propose a baseline from the kernel logs of NODES, which should be healthy and of one kind.
    A person must approve it.

    A saved log is named after its node: gpu001.dmesg.gz. A file of several boots counts as several; a boot
    that B already contains counts once.

    \b
    muster baseline learn 'gpu[001-064]' -o h100.yaml
    muster baseline learn 'gpu[001-064]' -o h100.yaml --merge            a week later: more boots
    muster baseline learn --sku dgx-h100 -o h100.yaml --from logs/*.dmesg
    muster check --save monday; muster baseline learn --replay monday -o h100.yaml

    Exit: 0 learned, 2 usage, or nothing to learn from, 3 learned, but not from all nodes or files.
    """
    from healthcheck.baseline.gather import LearningNotes
    from healthcheck.baseline.scope import ScopeLevel, words
    from healthcheck.ruleset.ruleset import ruleset_of

    target = Path(output)
    if not target.parent.is_dir():
        raise UsageError(f"--output {output}: no folder {target.parent}")
    if target.is_file() and not merge:
        raise UsageError(f"--output {output}: exists already; --merge adds to it")
    ruleset = ruleset_of(rules)
    check_sku(sku, ruleset)
    notes = LearningNotes()
    if files:
        digests = _of_files((*files, *nodes), sku, notes)
    elif len(nodes) > 1:
        raise UsageError(f"NODES is one node set, got {len(nodes)} words: quote it, as 'gpu[001-064]'; give "
                         "files after --from")
    elif replay is not None:
        digests = _of_sweep(replay, nodes[0] if nodes else None, sku, notes)
    else:
        digests = _swept(nodes[0] if nodes else None, inventory, local, sku, ruleset, timeout, fanout, notes)
    learned = _learned(digests, target, ScopeLevel(level), merge, ruleset)
    _print_skipped("not learned from", notes.left_out)
    _print_skipped("learned from a part of", notes.caveats)
    if not learned:
        raise UsageError("there is no kernel log to learn from")
    if len(learned) > 1 and not target.is_dir():
        scopes = "; ".join(f"{words(scope)} ({len(one.learner.learned_boots)} nodes)"
                           for scope, one in learned.items())
        raise UsageError(f"these nodes have {len(learned)} scopes: {clean(scopes, 300)}: give a folder as "
                         "--output, name fewer nodes, or choose a wider --scope (series, sku)")
    for scope, one in learned.items():
        _write(scope, one, expires, ruleset)
    return 3 if notes.left_out else 0


@dataclass(frozen=True)
class _Book:
    """A baseline being learned: its file, the old content and its time, and the new content."""

    path: Path
    old: Baseline | None
    since: tuple[int, ...] | None
    learner: Learner


def _learned(
    digests: Iterator[Digest], target: Path, level: ScopeLevel, merge: bool, ruleset: Ruleset,
) -> dict[Scope, _Book]:
    """Learns from all boots, by scope; each is freed once counted."""
    from healthcheck.baseline.scope import widened

    books: dict[Scope, _Book] = {}
    for digest in digests:
        scope = widened(digest.scope, level)
        if scope not in books:
            books[scope] = _begun(target / f"{_named(scope)}.yaml" if target.is_dir() else target, merge,
                                  ruleset)
        books[scope].learner.add(digest)
    return books


def _begun(path: Path, merge: bool, ruleset: Ruleset) -> _Book:
    from healthcheck.baseline.file import stamp
    from healthcheck.baseline.fileload import load
    from healthcheck.baseline.learn import Learner

    since = stamp(path)
    if since is None:
        return _Book(path, None, None, Learner())
    if not merge:
        raise UsageError(f"--output {path}: exists already; --merge adds to it")
    assert ruleset.kernel is not None  # noqa: S101  (narrowing; loaded rules have a catalogue)
    old = load(path, ruleset.kernel.catalogue)
    return _Book(path, old, since, Learner(old.learned_boots))


def _named(scope: Scope) -> str:
    from healthcheck.baseline.gather import node_of

    parts = (scope.sku or "any", scope.kernel, scope.driver, scope.firmware.replace(" ", "-"))
    return node_of("-".join(part.replace("/", "-") for part in parts if part))


def _write(scope: Scope, book: _Book, expires: float | None, ruleset: Ruleset) -> None:
    """Writes one baseline and prints a summary."""
    from healthcheck.baseline.file import write
    from healthcheck.baseline.flags import flagged
    from healthcheck.baseline.learn import merge
    from healthcheck.baseline.scope import words

    assert ruleset.kernel is not None  # noqa: S101  (narrowing; loaded rules have a catalogue)
    whole = book.learner.learned(scope, dt.datetime.now(dt.timezone.utc).date().isoformat(), book.path.stem)
    if book.old is not None:
        if book.old.scope != scope:
            raise UsageError(f"--merge: {book.path} is for {words(book.old.scope)}, and these nodes are "
                             f"{clean(words(scope), 200)}: name another file, or the --scope that it was "
                             "learned with")
        whole = merge(book.old, whole)
    if expires is not None:
        whole = replace(whole, expires_days=int(expires // 86400))
    whole = flagged(replace(whole, file=str(book.path)), ruleset.kernel.catalogue)
    write(whole, book.path, book.since)
    click.echo(f"written: {book.path}, for {clean(words(scope), 200)}: {_summary(whole, book.learner)}")
    if whole.proposed:
        click.echo(f"next: muster baseline review {book.path}")


def _summary(whole: Baseline, learner: Learner) -> str:
    """A summary, and how many of the boots were new."""
    flags = sum(bool(one.flags) for one in whole.proposed.values())
    before = learner.offered - learner.boots
    known = f", {before} of the {learner.offered} boots were known already" if before else ""
    few = "; fewer than 3 boots prove little" if whole.boots < 3 else ""
    return (f"{len(whole.known)} templates approved, {len(whole.proposed)} proposed, {flags} of them "
            f"flagged; of {many(whole.nodes, 'node')} and {many(whole.boots, 'boot')}{known}{few}")


def _print_skipped(what: str, nodes: dict[str, str]) -> None:
    """On standard error, each reason once; of many reasons the first few, and the rest is counted."""
    found = fold_reasons(nodes.items())
    for each in found[:_SHOWN]:
        click.echo(f"muster: {what} {each.names}: {clean(each.text, 300)}", err=True)
    if more := sum(len(each.nodes) for each in found[_SHOWN:]):
        click.echo(f"muster: {what} {more} more", err=True)


def _of_files(files: tuple[str, ...], sku: str | None, notes: LearningNotes) -> Iterator[Digest]:
    from healthcheck.baseline.formats import MOST_BYTES
    from healthcheck.baseline.gather import digests_from_file

    for name in files:
        try:
            if Path(name).is_char_device():     # reading it would wait for the kernel's next line
                raise UsageError(f"--from {short(name)}: is a device; --local learns from this machine")
            with open(name, "rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"--from {short(name)}: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise UsageError(f"--from {short(name)}: is longer than {MOST_BYTES >> 20} MiB")
        yield from digests_from_file(name, data, sku or "", notes)


def _of_sweep(folder: str, nodes: str | None, sku: str | None, notes: LearningNotes) -> Iterator[Digest]:
    from healthcheck.baseline.gather import digests_from_recording
    from healthcheck.sweep.saved import load_manifest, recordings

    manifest = load_manifest(Path(folder))
    wanted = ({node.name for node in from_names(nodes)} if nodes is not None
              else {node.name for node in manifest.nodes})
    if missing := wanted - {node.name for node in manifest.nodes}:
        raise UsageError(f"--replay {folder}: contains no recording of {min(missing)}")
    skus = {node.name: sku or node.sku or manifest.default_sku or "" for node in manifest.nodes}
    for reading, _ in recordings(Path(folder), manifest):
        if reading.node in wanted:
            yield from digests_from_recording(reading, skus[reading.node], notes)


def _swept(
    nodes: str | None, inventory: str | None, local: bool, sku: str | None, ruleset: Ruleset,
    timeout: float | None, fanout: int, notes: LearningNotes,
) -> Iterator[Digest]:
    """One sweep of the kernel log only; keeps nothing."""
    from healthcheck.baseline.gather import digests_from_recording, probes
    from healthcheck.collector import program, reply
    from healthcheck.sweep import sweep

    chosen = choose(nodes, inventory, local, False, ruleset, sku)
    transport = transport_of("local" if local else "ssh")
    limits, asked = sweep.limits(timeout, fanout, chosen), probes()
    if not local:
        announce(chosen, limits, timeout)
    skus = {node.name: sku or node.sku or "" for node in chosen}
    with progress(len(chosen), "baseline learn") as bar:
        for answer in transport.run(list(chosen), program.build(asked, nvml=False), limits):
            reading = reply.within(reply.decode(answer, limit=limits.reply_bytes), asked)
            bar.done(reading.node, reading.host is not None)
            yield from digests_from_recording(reading, skus[reading.node], notes)
