"""Caches between a user's commands what was read of the rules' YAML: reading and checking it takes most of
the time of a command that only needs the rules. Results are never cached."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from healthcheck.checks.base import CHECKS
from healthcheck.config import entrypoints, usercache
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.facts.base import FACTS
from healthcheck.model.probes import Effect
from healthcheck.ruleset.profile import Profile
from healthcheck.ruleset.ruleplain import rule_from_plain, rule_to_plain
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku

if TYPE_CHECKING:
    from healthcheck.baseline.kernelrules import KernelRules
    from healthcheck.xid.xidtable import XidTable

_CODE = ("ruleset", "config", "xid", "checks", "facts", "model")
_FOLDERS = ("", "sku", "profile", "kernel", "emitter", "baseline")


def load(folders: tuple[Path, ...]) -> Ruleset:
    """What `rulesetload.load` gives; raises RulesError, UsageError."""
    plugged = bool(entrypoints.entries())
    if plugged:
        from healthcheck.ruleset import plugins

        plugins.load()
    name = usercache.digest(_parts(folders, plugged))
    ruleset = usercache.cached("rules", name, _read, lambda: _load(folders), _plain)
    return replace(
        ruleset, kernel_from=functools.cache(lambda: _kernel(folders)),
        xids_from=functools.cache(lambda: _xids(folders, name)))


def _load(folders: tuple[Path, ...]) -> Ruleset:
    from healthcheck.ruleset.rulesetload import load

    return load(folders)


def _plain(ruleset: Ruleset) -> dict[str, Any]:
    return {"rules": [rule_to_plain(rule) for rule in ruleset.rules], "skus": to_plain(ruleset.skus),
            "digest": ruleset.digest, "profiles": to_plain(ruleset.profiles),
            "baselines": to_plain(ruleset.baselines)}


def _read(document: dict[str, Any]) -> Ruleset:
    return Ruleset(tuple([rule_from_plain(rule) for rule in document["rules"]]),
                   from_plain(Mapping[str, Sku], document["skus"]), document["digest"],
                   from_plain(Mapping[str, Profile], document["profiles"]),
                   baselines=from_plain(Mapping[str, str], document["baselines"]))


def _xids(folders: tuple[Path, ...], name: str) -> XidTable | None:
    from healthcheck.xid.xidtable import XidTable

    def made() -> XidTable | None:
        from healthcheck.xid.xidtableload import load_xid_table

        return load_xid_table(folders)

    found: XidTable | None = usercache.cached(
        "xids", name, lambda held: from_plain(XidTable | None, held), made, to_plain)
    return found


def _kernel(folders: tuple[Path, ...]) -> KernelRules:
    from healthcheck.ruleset.rulesetload import load_kernel

    return load_kernel(folders)


def _parts(folders: tuple[Path, ...], plugged: bool) -> Iterator[bytes]:
    """The files, their contents, the code that reads them and the checks that they are held against (a
    checkout's version does not change), and with plug-ins what each check takes."""
    code = Path(__file__).parents[1]
    for path in sorted(path for name in _CODE for path in (code / name).glob("*.py")):
        yield path.read_bytes()
    # Without plug-ins they are ours alone, whose code counts, loaded already or not.
    if plugged:
        disruptive = {name for name, fact in FACTS.items() for probe in (*fact.probes, *fact.besides)
                      if probe.effect is not Effect.PASSIVE}
        for name, check in sorted(CHECKS.items()):
            parameters = [(held.name, held.phrase, held.required) for held in check.parameters.values()]
            yield repr((name, check.fleet, parameters,
                        sorted(disruptive.intersection(check.facts)))).encode()
    for folder in folders:
        for path in sorted(path for name in _FOLDERS for path in (folder / name).glob("*.yaml")):
            yield str(path).encode()
            yield path.read_bytes()
