"""Gives a node another name in the files of the state folder and in the site's baselines. Each step leaves a
name that has come over already as it is, so that it can be done again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from healthcheck.baseline.file import dump
from healthcheck.baseline.fileload import as_yaml
from healthcheck.baseline.renamed import renamed
from healthcheck.certify.manifest import FOLDER, NAME
from healthcheck.certify.manifest import load_manifest as load_certificates
from healthcheck.certify.manifest import rename as rename_certificate
from healthcheck.config.files import write_whole
from healthcheck.config.rulesfolder import packaged
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.errors import RulesError, UsageError
from provisioning.bmc import pins


def check_files(state: Path, old: str, new: str) -> None:
    """Raises MusterError where the certificates cannot be signed again, or the pins are of two machines."""
    if (state / FOLDER / NAME).exists() and old in load_certificates(state).nodes:
        from healthcheck.certify.keys import load_keys, signer_of

        signer_of(state, load_keys(state))
    held = pins.read(state)
    if old in held and held.get(new, held[old]) != held[old]:
        raise UsageError(f"{state / pins.NAME}: {old} and {new} have different certificates pinned: one of "
                         "them is another machine")


def rename_files(state: Path, rules: Sequence[Path], old: str, new: str, now: float) -> list[str]:
    """Moves certificate, pin, snapshot, evidence and baselines to the new name; a line each. MusterError."""
    done = []
    try:
        if made := rename_certificate(state, old, new, now):
            done.append(f"certificate {made}")
        if pins.rename(state, old, new):
            done.append("the controller's certificate")
        if KeptSnapshots(state).rename(old, new):
            done.append("the newest snapshot")
        if _evidence(state / "evidence", old, new):
            done.append("evidence")
        done += map(str, _baselines([one for one in rules if one != packaged()], old, new))
    except OSError as error:
        raise UsageError(f"{error.filename or state}: {error.strerror}") from None
    return done


def _baselines(folders: Iterable[Path], old: str, new: str) -> Iterator[Path]:
    """The files of these rules folders that have the new name now. One that cannot be read is left as it is:
    whoever uses it says what is wrong with it."""
    for path in sorted(path for folder in folders for path in (folder / "baseline").glob("*.yaml")):
        try:
            before, _ = as_yaml(path)
        except RulesError:
            continue
        after = renamed(before, old, new)
        if after != before:
            write_whole(path.resolve(), dump(after).encode(), path.stat().st_mode & 0o777)
            yield path


def _evidence(folder: Path, old: str, new: str) -> bool:
    """Moves what `muster evidence` kept, also beside what is there under the new name."""
    source, target = folder / old, folder / new
    if not source.is_dir():
        return False
    target.mkdir(mode=0o700, exist_ok=True)
    for path in sorted(source.iterdir()):
        if not (target / path.name).exists():
            path.replace(target / path.name)
    if not any(source.iterdir()):
        source.rmdir()
    return True
