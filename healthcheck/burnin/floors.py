"""What a figure must reach: floors that a site learned and approved, else a share of what is published.

A person reads the YAML of `muster.floors/1` before approving it. The approved file is `burnin-floors.yaml` in
a rules folder; the floors of later folders win.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from healthcheck.burnin.figures import FIGURES
from healthcheck.burnin.model import BurnInStage
from healthcheck.burnin.published import ALGOS, BUSBW, FILE, GLOO, NCCL, BurninRules, Setting
from healthcheck.burnin.publishedload import NODES, chosen, load_burnin
from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.files import make_folder, write_whole
from healthcheck.config.valuetypes import FLAG, TEXT, ValueType, integer, list_of, needed, number, parse_value
from inventory.errors import Mark, RulesError, UsageError
from inventory.located import LocatedList, LocatedMap, load_yaml, parse_yaml
from inventory.text import clean

SCHEMA = "muster.floors/1"
NAME = "burnin-floors.yaml"
LEARNED, PUBLISHED = "learned", "published"
_MOST = 1e12
_FIGURE = number(0, _MOST)
_FORMS: Mapping[str, ValueType] = {
    "figure": chosen(FIGURES), "stage": chosen(stage.value for stage in BurnInStage),
    "gpu": ValueType("text", lambda given: _text(given)),
    "gpus": integer(1, 1024), "nodes": NODES, "nics": integer(0, 64), "gbps": _FIGURE,
    "size_bytes": integer(0, 2**50),
    "algo": chosen((*ALGOS, "")), "watts": integer(0, 100_000), "nvlink": FLAG,
    "backend": chosen((NCCL, GLOO)),
    "mount": ValueType("text", lambda given: _text(given)), "median": _FIGURE,
    "mad": _FIGURE, "n": integer(1, 10**9), "floor": _FIGURE, "warning": TEXT,
    "approved": ValueType("a map of by and at", lambda given: given),
}
_TOP = ("schema", "learned", "runs", "floors")
_NEEDED = tuple(key for key in _FORMS if key not in ("mount", "warning", "approved"))


@dataclass(frozen=True)
class LearnedFloor:
    """One learned floor: its setting (`nodes` may be a range), what was measured, and who approved it."""

    setting: Setting
    nodes: tuple[int, int]
    median: float
    mad: float
    n: int
    floor: float
    warning: str = ""
    by: str = ""
    at: str = ""

    def holds(self, setting: Setting) -> bool:
        """Whether it holds for this setting: all must be equal, but the number of nodes may be a range."""
        return (self.nodes[0] <= setting.nodes <= self.nodes[1]
                and replace(self.setting, nodes=setting.nodes) == setting.learned_from)


@dataclass(frozen=True)
class FloorProposal:
    """A floors file: when and from which runs it was learned, and its floors."""

    learned: str
    runs: tuple[str, ...]
    floors: tuple[LearnedFloor, ...]


@dataclass(frozen=True)
class Floor:
    """The least that a figure may be, where that comes from ("learned" or "published"), and how in words."""

    least: float
    origin: str
    why: str


@dataclass(frozen=True)
class Floors:
    """All that figures are held against. `digest` is over the files that it was read from."""

    rules: BurninRules
    learned: tuple[LearnedFloor, ...] = ()
    digest: str = ""

    def of(self, setting: Setting) -> Floor | None:
        """The floor for a setting; None without one, or for buffers too small for what is published."""
        for one in reversed(self.learned):
            if one.holds(setting):
                return Floor(one.floor, LEARNED,
                             f"learned from {one.n}, median {one.median:g}, approved by {clean(one.by, 60)}")
        found = self.rules.value(setting)
        if found is None or (setting.figure == BUSBW and setting.size < self.rules.least_bytes):
            return None
        figure, entry = found
        share = entry.share if entry.share is not None else self.rules.share
        return Floor(share * figure, PUBLISHED, f"{share:g} of the {figure:g} of {entry.id}")


def load_floors(folders: Iterable[Path]) -> Floors:
    """`burnin.yaml` and the approved floors of all folders; raises RulesError, also for a floor that no one
    approved or that is `refused`."""
    folders = tuple(folders)
    rules, digest = load_burnin(folders), hashlib.sha256()
    learned: list[LearnedFloor] = []
    for folder in folders:
        for name in (FILE, NAME):
            if (path := folder / name).is_file():
                digest.update(path.read_bytes())
                learned += read(path, approved=True, rules=rules).floors if name == NAME else ()
    return Floors(rules, tuple(learned), digest.hexdigest())


def refused(one: LearnedFloor, rules: BurninRules) -> str:
    """Why a floor requires too little; "" where it does not."""
    least = rules.least_share
    if one.floor <= 0:
        return "a floor of 0 requires nothing"
    if one.floor < least * one.median:
        of = f"{one.floor / one.median:.1%} of its median {one.median:g}"
        return f"a floor of {one.floor:g} is {of}, below {least:.0%}: the figures scatter too much"
    for nodes in one.nodes:
        found = rules.value(replace(one.setting, nodes=nodes))
        if found is not None and one.floor < least * found[0]:
            return (f"a floor of {one.floor:g} is {one.floor / found[0]:.1%} of the {found[0]:g} of "
                    f"{found[1].id}, below {least:.0%}")
    return ""


def read(path: Path, *, approved: bool = False, rules: BurninRules | None = None) -> FloorProposal:
    """A floors file; with `approved` each floor needs who approved it and when; with `rules` none may be
    `refused`. Raises RulesError with file, line and column."""
    return _proposal(load_yaml(path, error=RulesError), str(path), approved, rules)


def _proposal(top: Any, name: str, approved: bool, rules: BurninRules | None = None) -> FloorProposal:
    if not isinstance(top, LocatedMap):
        raise RulesError(f"expected a map of {', '.join(_TOP)}; got {kind_of(top)}", Mark(name, 1, 1))
    known_keys(top, _TOP, "")
    if top.get("schema") != SCHEMA:
        raise RulesError(f"schema: expected {SCHEMA}, got {kind_of(top.get('schema'))}",
                         top.value_marks.get("schema", top.mark))
    learned = parse_value("learned", top.get("learned"), top.value_marks.get("learned", top.mark), TEXT)
    runs = parse_value("runs", top.get("runs"), top.value_marks.get("runs", top.mark),
                 list_of("ids of runs", TEXT)) if "runs" in top else ()
    given = top.get("floors")
    if not isinstance(given, LocatedList):
        raise RulesError(f"floors: expected a list, got {kind_of(given)}",
                         top.value_marks.get("floors", top.mark))
    floors = tuple(_learned(item, f"floors: {at + 1}", given.value_marks[at], approved)
                   for at, item in enumerate(given))
    seen: dict[object, int] = {}
    for at, one in enumerate(floors):
        first = seen.setdefault((one.setting, one.nodes), at)
        if first != at:
            raise RulesError(f"floors: {at + 1}: is for what {first + 1} is for already ({one.setting})",
                             given.value_marks[at])
        if rules is not None and (why := refused(one, rules)):
            raise RulesError(f"floors: {at + 1}: {why} ({one.setting})", given.value_marks[at])
    return FloorProposal(learned, runs, floors)


def _learned(item: Any, where: str, mark: Mark, approved: bool) -> LearnedFloor:
    if not isinstance(item, LocatedMap):
        raise RulesError(f"{where}: expected a map of {', '.join(_FORMS)}; got {kind_of(item)}", mark)
    known_keys(item, list(_FORMS), f"{where}: ")
    needed(item, _NEEDED, _FORMS, where, item.mark)
    held = {key: parse_value(f"{where}: {key}", item[key], item.value_marks[key], _FORMS[key])
            for key in item}
    by, at = _approval(item, where)
    if approved and not by:
        raise RulesError(f"{where}: it is not approved: type `muster burnin approve FILE --by NAME`",
                         item.mark)
    setting = Setting(
        held["figure"], held["stage"], held["gpu"], held["gpus"], held["nodes"][0], held["nics"],
        held["gbps"], held["size_bytes"],
        held["algo"], held["watts"], held["nvlink"], held["backend"], held.get("mount", ""))
    return LearnedFloor(setting, held["nodes"], held["median"], held["mad"], held["n"], held["floor"],
                        held.get("warning", ""), by, at)


def _approval(item: LocatedMap, where: str) -> tuple[str, str]:
    if "approved" not in item:
        return "", ""
    given, mark = item["approved"], item.value_marks["approved"]
    if not isinstance(given, LocatedMap) or set(given) != {"by", "at"}:
        raise RulesError(f"{where}: approved: expected a map of by and at, got {kind_of(given)}", mark)
    by, at = (parse_value(f"{where}: approved: {key}", given[key], given.value_marks[key], TEXT)
              for key in ("by", "at"))
    return str(by), str(at)


def as_yaml(proposal: FloorProposal) -> str:
    """The file that `read` reads, for people."""
    approved = all(one.by for one in proposal.floors) and bool(proposal.floors)
    lines = [
        "# Burn-in figures of this site's machines, and the least that muster requires of them."
        + ("" if approved else " Proposed, not approved:"),
        "# floor is what sound machines reach: at most 0.97 medians, and 6 deviations below the median; n: "
        "measures.",
        "# It holds for the same setting only; nodes may be a range, such as 60-64.",
        f"schema: {SCHEMA}", f"learned: {_quoted(proposal.learned)}",
        *([f"runs: [{', '.join(map(_quoted, proposal.runs))}]"] if proposal.runs else []),
        "floors:" if proposal.floors else "floors: []",
    ]
    for one in proposal.floors:
        at = one.setting
        nodes = f"{one.nodes[0]}-{one.nodes[1]}" if one.nodes[0] < one.nodes[1] else f"{one.nodes[0]}"
        lines += [
            f"- figure: {at.figure}    # {FIGURES[at.figure]}",
            f"  stage: {at.stage}", f"  gpu: {_quoted(at.gpu)}", f"  gpus: {at.gpus}", f"  nodes: {nodes}",
            f"  nics: {at.nics}",
            f"  gbps: {at.gbps:g}", f"  size_bytes: {at.size}", f"  algo: {_quoted(at.algo)}",
            f"  watts: {at.watts}",
            f"  nvlink: {str(at.nvlink).lower()}", f"  backend: {at.backend}",
            *([f"  mount: {_quoted(at.mount)}"] if at.mount else []),
            f"  median: {one.median:g}", f"  mad: {one.mad:g}",
            f"  n: {one.n}", f"  floor: {one.floor:g}",
        ]
        if one.warning:
            lines.append(f"  warning: {_quoted(one.warning)}")
        if one.by:
            lines.append(f"  approved: {{by: {_quoted(one.by)}, at: {_quoted(one.at)}}}")
    return "\n".join(lines) + "\n"


def approve(proposed: Path, folder: Path, by: str, at: str, rules: BurninRules) -> Path:
    """Adds the proposed floors to the folder's file, each with who approved it and when (ISO time). Raises
    RulesError as `read` does, UsageError without a name or where the file cannot be written."""
    by = clean(" ".join(by.split()), 120)
    if not by:
        raise UsageError("--by: expected the name of the person who approves")
    new = read(proposed, rules=rules)
    if not new.floors:
        raise UsageError(f"{proposed}: holds no floor to approve")
    make_folder(folder, "--into")
    target = folder / NAME
    old = read(target, approved=True).floors if target.is_file() else ()
    held = {(one.setting, one.nodes): one
            for one in (*old, *(replace(one, by=by, at=at) for one in new.floors))}
    write(target, FloorProposal(new.learned, new.runs, tuple(held[key] for key in sorted(held))))
    return target


def write(path: Path, proposal: FloorProposal) -> None:
    """Writes the file whole, after a check that it can be read again; raises UsageError."""
    text = as_yaml(proposal)
    _proposal(parse_yaml(text, str(path), error=RulesError), str(path), approved=False)
    data = text.encode()
    try:
        write_whole(path, data, 0o644)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def rounded(figure: float) -> float:
    """Six significant digits: what is written is what counts."""
    return float(f"{figure:.6g}") if math.isfinite(figure) else 0.0


def _quoted(text: str) -> str:
    return json.dumps(clean(text, 400), ensure_ascii=False)


def _text(given: Any) -> str:
    if not isinstance(given, str) or len(given) > 200:
        raise ValueError
    return clean(given)
