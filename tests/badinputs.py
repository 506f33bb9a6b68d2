"""What a hurried or hostile hand may type for each parameter of a command, by the parameter's type, name and
metavar; and a folder with the files that these name. A new command gets its inputs by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import click

from healthcheck.store.file import opened

HOSTILE = "gpu\x1b[31m\x1b]0;owned\x07\u202e<b>001"
LONG = "x" * 50_000
# Files of the folder that `fill` makes, and paths that lead nowhere.
FILES = ("missing", "folder", "empty", "binary", "broken.yaml", "list.yaml", "number.yaml", "other.yaml",
         "latin1", "zeros", "empty/below", "loop",
         f"hostile\x1b[31m{'n' * 20}", "n" * 300)
STATES = ("empty", "empty/below", "loop", "future", "damaged", "cut", "foreign", "/proc/self/none", "n" * 300)
NUMBERS = ("99999999999999999999999", "-1", "nan", "inf", "1e999", "", "three", "0x10", "1_000", HOSTILE)
SPANS = (*NUMBERS, "99999999d", "1y", "-5m", "2026-13-45", "0001-01-01", "9999-12-31T23:59Z", "999999w")
NODES = ("", "gpu[1-", "gpu[5-1]", "gpu[1-99999999999]", "@nosuch", "nosuch", ",", "!gpu001", "gpu001]", "-1",
         "*[", HOSTILE, LONG)
TEXTS = ("", " ", "nosuch", "-1", "99999999999999999999999", "\udcff", HOSTILE, LONG, "a=b=c", "[", "nan")
ENDLESS = ("loop", "watch")     # flags with which a command goes on
# Such words stand in a parameter's name or metavar.
_PATHS = ("file", "dir", "path", "evidence", "baseline", "result", "source", "keys", "known_hosts",
          "output", "logs")
_SPAN = ("span", "date", "time")
_NODES = ("nodes", "node", "nodeset", "which", "what")


@dataclass(frozen=True)
class BadInput:
    """Words for a command, and which of its parameters they mistreat."""

    parameter: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.parameter}: {' '.join(ascii(word)[:80] for word in self.words)}"


def fill(home: Path) -> None:
    """The files, state folders and the sound inventory of a home."""
    (home / "muster.yaml").write_text(
        "version: 1\ncordon: {hostfile: bad-hosts}\ngroups: {train: 'gpu[001-003]'}\n"
        "defaults: {ssh: {port: 1}, limits: {connect: 2s}}\n"
        "nodes:\n  gpu[001-003]: {address: 127.0.0.1, bmc: {address: 127.0.0.1, port: 1}}\n")
    (home / "folder").mkdir()
    (home / "empty").write_bytes(b"")
    (home / "binary").write_bytes(bytes(range(256)) * 8)
    (home / "broken.yaml").write_text("version: [1\n  nodes: {")
    (home / "list.yaml").write_text("- 1\n- {a: b}\n")
    (home / "number.yaml").write_text("7\n")
    (home / "other.yaml").write_text("apiVersion: v1\nkind: Pod\nspec: {containers: []}\n")
    (home / "latin1").write_bytes(b"version: 1\nnodes:\n  gpu\xe9\xff: {}\n")
    (home / "zeros").write_bytes(bytes(4096))
    (home / "loop").symlink_to("loop")
    (home / f"hostile\x1b[31m{'n' * 20}").write_text("gpu001\x1b[31m\n\x1b]0;x\x07")
    for name in ("state", "future", "damaged", "cut", "foreign"):
        with opened(home / name, make=True) as store:
            file = store.path
        if name == "future":
            with sqlite3.connect(file) as db:
                db.execute("PRAGMA user_version = 99999")
        elif name == "damaged":
            file.write_bytes(bytes(range(256)) * 64)
        elif name == "cut":
            file.write_bytes(file.read_bytes()[:5000])
        elif name == "foreign":
            file.unlink()
            with sqlite3.connect(file) as db:
                db.execute("CREATE TABLE recipes (id INTEGER)")


def sampled(found: Iterable[BadInput], seed: str) -> list[BadInput]:
    """Of each parameter's inputs one, chosen by `seed`, so that commands with an option in common try
    different values of it; and all that are of no parameter."""
    by_parameter: dict[str, list[BadInput]] = {}
    for one in found:
        by_parameter.setdefault(one.parameter, []).append(one)
    return [these[crc32(f"{seed} {name}".encode()) % len(these)] for name, these in by_parameter.items()]


def bad_inputs(command: click.Command) -> Iterator[BadInput]:
    """For each parameter of the command each bad value of its kind, with sound words for what else it needs;
    each option twice; all flags."""
    for parameter in command.params:
        rest = needed(command, but=parameter)
        if isinstance(parameter, click.Option) and parameter.is_flag:
            continue
        for value in _values(parameter):
            # What is mistreated comes first: a command line is read from left to right.
            yield BadInput(str(parameter.name),
                           (*_words(parameter, value), *rest) if isinstance(parameter, click.Option)
                           else _placed(command, parameter, value))
        if isinstance(parameter, click.Option):
            twice = (*_words(parameter, _sound(parameter)), *_words(parameter, "nosuch"))
            yield BadInput(f"{parameter.name} twice", (*twice, *rest))
    flags = [one.opts[0] for one in command.params if isinstance(one, click.Option) and one.is_flag
             and one.name not in ENDLESS]
    rest = needed(command)
    if len(flags) > 1:
        yield BadInput("all flags", (*flags, *rest))
    yield BadInput("too many", (*rest, *["gpu001"] * 40))
    yield BadInput("nothing", ())


def needed(command: click.Command, but: click.Parameter | None = None) -> tuple[str, ...]:
    """Sound words for what the command requires, without those for one parameter."""
    return tuple(word for one in command.params if one.required and one is not but
                 for word in _words(one, _sound(one)))


def _placed(command: click.Command, meant: click.Parameter, value: str) -> tuple[str, ...]:
    """The arguments of the command up to and with this one, and its required options in front."""
    options = [_words(one, _sound(one)) for one in command.params if isinstance(one, click.Option)
               and one.required]
    arguments = [value if one is meant else _sound(one)
                 for one in command.params if isinstance(one, click.Argument)]
    places = [one for one in command.params if isinstance(one, click.Argument)]
    upto = [word for word, one in zip(arguments, places, strict=True) if one.required
            or places.index(one) <= places.index(meant)]
    return (*(word for words in options for word in words), "--", *upto)


def _words(parameter: click.Parameter, value: str) -> Sequence[str]:
    if isinstance(parameter, click.Argument):
        return (value,)
    assert isinstance(parameter, click.Option)
    if parameter.is_flag:
        return (parameter.opts[0],)
    return (parameter.opts[0],
            value) if not parameter.opts[0].startswith("--") else (f"{parameter.opts[0]}={value}",)


def _kind(parameter: click.Parameter) -> str:
    """What it takes: path, state, number, span, nodes, choice or text."""
    if isinstance(parameter.type, click.Choice):
        return "choice"
    if isinstance(parameter.type, (click.types.IntRange, click.types.FloatRange, click.types.IntParamType,
                                   click.types.FloatParamType)):
        return "number"
    name, metavar = str(parameter.name), str(getattr(parameter, "metavar", None) or "").lower()
    if name == "state" and metavar == "dir":
        return "state"
    if isinstance(parameter.type, click.Path) or any(word in metavar
                                                     for word in ("file", "dir", "path")) or name in _PATHS:
        return "path"
    if any(word in metavar for word in _SPAN):
        return "span"
    return "nodes" if name in _NODES or "nodes" in metavar else "text"


def _values(parameter: click.Parameter) -> tuple[str, ...]:
    return {"choice": ("", "nosuch", HOSTILE, LONG), "number": NUMBERS, "state": STATES, "path": FILES,
            "span": SPANS, "nodes": NODES,
            "text": TEXTS}[_kind(parameter)]


def _sound(parameter: click.Parameter) -> str:
    """A value of the right form."""
    if isinstance(parameter.type, click.Choice):
        return str(parameter.type.choices[0])
    least = getattr(parameter.type, "min", None)
    return {"number": str(least if least is not None else 1), "state": "state", "path": "other.yaml",
            "span": "2d", "nodes": "gpu001"}.get(
                _kind(parameter), "gpu-count" if parameter.name == "rule" else "x")
