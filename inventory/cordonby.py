"""The inventory's key `cordon`: what keeps jobs away from the nodes of this site.

    cordon: slurm                                   # scontrol
    cordon: {hostfile: /shared/bad-hosts}           # a file of the nodes that launch scripts leave out
    cordon: {golden: /shared/good-hosts}            # a file of the nodes that they may use
    cordon: {command: [/opt/site/cordon, --now], seconds: 30}
    cordon: kubernetes                  # the cluster of the kubeconfig, with the inventory's node names
    cordon: {kubernetes: {label: example.org/machine}}      # the label's value is the inventory's name
    cordon: {kubernetes: {config: /etc/muster/kubeconfig, context: train, name: "{node}.example.org",
                          condition: true}, seconds: 30}

It is not a rule, because muster runs the command, and whoever may edit a rule must not run anything.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from inventory.entry import check_keys, described
from inventory.errors import InventoryError, Mark
from inventory.located import LocatedList, LocatedMap
from inventory.model import CordonBy, InKubernetes, IsolationBackend

_EXPECTED = ("expected slurm, kubernetes, {hostfile: FILE}, {golden: FILE}, {kubernetes: {context: NAME}} "
             "or {command: [PROGRAM, ...], seconds: 30}")
_KUBERNETES = {
    "config": "the file name of a kubeconfig", "context": "the name of a context",
    "name": "a node's name with {node} in it, such as '{node}.example.org'",
    "label": "the name of a label, such as example.org/machine",
}
_NAME = re.compile(r"[-.a-z0-9]{0,200}\{node\}[-.a-z0-9]{0,200}")
_LABEL = re.compile(r"([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_S = 600
_MOST_WORDS = 64
_MOST = 4096        # characters of a path (Linux' PATH_MAX) or a word


def read_cordon(document: LocatedMap, folder: Path) -> CordonBy | None:
    """What the key says, None without it; relative paths start at `folder`. Raises InventoryError."""
    if "cordon" not in document:
        return None
    found, mark = document["cordon"], document.value_marks["cordon"]
    if found == IsolationBackend.SLURM.value:
        return CordonBy(IsolationBackend.SLURM)
    if found == IsolationBackend.KUBERNETES.value:
        return CordonBy(IsolationBackend.KUBERNETES, kubernetes=InKubernetes())
    if not isinstance(found, LocatedMap):
        raise InventoryError(f"cordon is {described(found)}, {_EXPECTED}", mark)
    check_keys(found, ("hostfile", "golden", "command", "kubernetes", "seconds", "list"), "cordon")
    kinds = [kind for kind in (IsolationBackend.HOSTFILE, IsolationBackend.GOLDEN, IsolationBackend.COMMAND,
                               IsolationBackend.KUBERNETES) if kind.value in found]
    if len(kinds) != 1:
        raise InventoryError(f"cordon names {len(kinds)} ways to keep jobs away, {_EXPECTED}", mark)
    kind = kinds[0]
    if "list" in found and kind is not IsolationBackend.COMMAND:
        raise InventoryError("cordon.list goes with a command only", found.key_marks["list"])
    value, place = found[kind.value], found.value_marks[kind.value]
    if kind is IsolationBackend.KUBERNETES:
        return CordonBy(kind, seconds=_seconds(found), kubernetes=_kubernetes(value, place, folder))
    if kind is not IsolationBackend.COMMAND:
        if "seconds" in found:
            raise InventoryError("cordon.seconds goes with a command or kubernetes only",
                                 found.key_marks["seconds"])
        return CordonBy(kind, path=_file(_word(value, place, f"cordon.{kind.value}", "a file name"), folder))
    lists = (_argv(found["list"], found.value_marks["list"], folder, "cordon.list")
             if "list" in found else ())
    return CordonBy(kind, argv=_argv(value, place, folder), seconds=_seconds(found), lists=lists)


def _kubernetes(value: Any, place: Mark, folder: Path) -> InKubernetes:
    if not isinstance(value, LocatedMap):
        raise InventoryError(f"cordon.kubernetes is {described(value)}, expected {{context: NAME}}, config, "
                             "name, label, condition", place)
    check_keys(value, ("config", "context", "name", "label", "condition"), "cordon.kubernetes")
    words = {key: _word(value[key], value.value_marks[key], f"cordon.kubernetes.{key}", expected)
             for key, expected in _KUBERNETES.items() if key in value}
    for key, form in (("name", _NAME), ("label", _LABEL)):
        if key in words and not form.fullmatch(words[key]):
            raise InventoryError(f"cordon.kubernetes.{key} is {described(words[key])}, expected "
                                 f"{_KUBERNETES[key]}", value.value_marks[key])
    if "name" in words and "label" in words:
        raise InventoryError("cordon.kubernetes.label and name exclude each other: keep one of them",
                             value.key_marks["label"])
    condition = value.get("condition", False)
    if not isinstance(condition, bool):
        mark = value.value_marks["condition"]
        raise InventoryError(f"cordon.kubernetes.condition is {described(condition)}, expected true or false",
                             mark)
    config = _file(words["config"], folder) if "config" in words else None
    return InKubernetes(config, words.get("context"), words.get("name", "{node}"), words.get("label"),
                        condition)


def _argv(
    value: Any, place: Mark, folder: Path, key: str = "cordon.command",
) -> tuple[str, ...]:
    expected = "a list of a program and its words, such as [/opt/site/cordon, --now]"
    if not isinstance(value, LocatedList) or not 0 < len(value) <= _MOST_WORDS:
        raise InventoryError(
            f"{key} is {described(value)}, expected {expected}, of at most {_MOST_WORDS}", place)
    # A number is a word as it was spelt.
    words = [_word(value.written.get(at, word), value.value_marks[at], key, expected)
             for at, word in enumerate(value)]
    # A bare name is looked up in PATH.
    return (_file(words[0], folder) if "/" in words[0] else words[0], *words[1:])


def _seconds(found: LocatedMap) -> float:
    value = found.get("seconds", 30)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LONGEST_S:
        raise InventoryError(
            f"cordon.seconds is {described(value)}, expected a number above 0 and at most {_LONGEST_S}",
            found.value_marks["seconds"])
    return float(value)


def _word(value: Any, place: Mark, key: str, expected: str) -> str:
    if not isinstance(value, str) or not value or len(value) > _MOST or not value.isprintable():
        raise InventoryError(f"{key} is {described(value)}, expected {expected}", place)
    return value


def _file(text: str, folder: Path) -> str:
    return str(folder / os.path.expanduser(text))  # noqa: PTH111  (knows ~user, never raises)
