"""Ansible's inventory files read into a tree: INI, YAML, the JSON that `ansible-inventory --list` prints, and
folders of them. Nothing is executed, decrypted or templated; what needs Ansible is refused."""

from __future__ import annotations

import ast
import re
import shlex
import string
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inventory.errors import InventoryError, Mark
from inventory.importers import ansible_yaml
from inventory.importers.ansible_tree import SECRET, Tree, Var, Vars
from inventory.importers.base import MAX_BYTES, MAX_NODES, decode, parse_json, read
from inventory.located import LocatedMap
from inventory.text import clean, short

# What Ansible skips in a folder: constants.REJECT_EXTS,
# INVENTORY_IGNORE_EXTS and inventory/manager.py of ansible-core 2.19.
_IGNORED = (".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry")
_FOLDERS = frozenset({"group_vars", "host_vars", "vars_plugins"})
_YAML = (".yml", ".yaml", ".json")
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_GROUP = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]+)")
_BRACKETED = re.compile(r"\[(.+)\]:([0-9]+)")
_LEVELS = 20        # folders within folders
_LINE = 64 * 1024   # characters of a line of an INI file
_LITERAL = 4096     # characters of a value that is looked at as a Python literal
# most values, recognised without Python's parser
_NO_LITERAL = re.compile(r"[A-Za-z_/~][A-Za-z0-9_./~@:-]*|[0-9]+(?:\.[0-9]+){2,}")
_VAULT = "$ANSIBLE_VAULT"


class AnsibleReader:
    """Reads the files of one inventory, 16 MB of them in all."""

    def __init__(self, root: Path, tree: Tree) -> None:
        self.tree = tree
        self._root = root
        self._left = MAX_BYTES
        self._beside: dict[tuple[str, str], Vars] = {}
        self._listed: dict[str, frozenset[str]] = {}

    def inventory(self) -> None:
        """Reads the inventory at the root: a file, or a folder of them."""
        if self._root.is_dir():
            if not self._folder(self._root, 0):
                raise InventoryError(f"{clean(self._root)}: contains no inventory file")
        else:
            self._file(self._root)

    def beside(self, folder: str, name: str) -> Vars:
        """The variables in `folder` ("group_vars" or "host_vars") beside the inventory, for a name."""
        key = (folder, name)
        if key not in self._beside:
            self._beside[key] = self._vars(folder, name)
        return self._beside[key]

    # which files

    def _folder(self, folder: Path, level: int) -> bool:
        if level > _LEVELS:
            raise InventoryError(f"{clean(folder)}: folders within folders more than {_LEVELS} deep")
        found = False
        for entry in _entries(folder):
            if entry.startswith(".") or entry in _FOLDERS or entry.endswith(_IGNORED):
                continue
            path = folder / entry
            if path.is_dir():
                found |= self._folder(path, level + 1)
            elif path.is_file():
                self._file(path)
                found = True
        return found

    def _vars(self, folder: str, name: str) -> Vars:
        if "/" in name or "\0" in name or name.startswith("."):     # never follow such a name
            return {}
        at = (self._root if self._root.is_dir() else self._root.parent) / folder
        if folder not in self._listed:
            self._listed[folder] = frozenset(_entries(at)) if at.is_dir() else frozenset()
        found: Vars = {}
        for ext in ("", *_YAML):
            if name + ext in self._listed[folder]:
                path = at / (name + ext)
                for each in self._tree_of_vars(path, 0) if path.is_dir() else [path]:
                    found.update(self._vars_file(each))
                break
        return found

    def _tree_of_vars(self, folder: Path, level: int) -> list[Path]:
        if level > _LEVELS:
            raise InventoryError(f"{clean(folder)}: folders within folders more than {_LEVELS} deep")
        found: list[Path] = []
        for entry in _entries(folder):
            path = folder / entry
            if entry.startswith(".") or entry.endswith("~"):
                continue
            if path.is_dir() and not path.suffix:
                found.extend(self._tree_of_vars(path, level + 1))
            elif path.is_file() and (not path.suffix or path.suffix in _YAML):
                found.append(path)
        return found

    def _text(self, path: Path) -> str:
        data = read(path)
        self._left -= len(data)
        if self._left < 0:
            raise InventoryError(
                f"{clean(path)}: with this file the inventory is over the size limit of {MAX_BYTES} bytes")
        if data.startswith(b"#!"):
            raise _only_ansible(path, self._root, "is a program, and muster does not run it")
        return decode(data, clean(path))

    def _note(self, text: str) -> None:
        if len(self.tree.notes) < 1000:
            self.tree.notes[text] = None

    # what is in them

    def _file(self, path: Path) -> None:
        source = clean(path)
        text = self._text(path)
        if text.startswith(_VAULT):
            raise _only_ansible(path, self._root, "is encrypted")
        if path.suffix == ".toml":
            raise _only_ansible(path, self._root, "is TOML, which muster cannot read")
        document = self._document(path, text, source)
        if not isinstance(document, Mapping):
            self._ini(text, source)
        elif document.get("plugin"):
            raise _only_ansible(path, self._root, "configures an inventory plugin, which muster does not run")
        elif ("_meta" in document
              or (not isinstance(document, LocatedMap) and any(map(_is_listed, document.values())))):
            self._listing(document, source)
        else:
            for name, group in document.items():
                self._yaml_group(name, group, _mark(document, name), source, 0)

    def _document(self, path: Path, text: str, source: str) -> Any:
        """A map of groups, located unless it was JSON; anything else for what can only be INI."""
        if text.lstrip()[:1] == "{":
            try:
                return parse_json(text, source)
            except InventoryError:
                if path.suffix not in (".yml", ".yaml"):
                    raise
        if path.suffix and path.suffix not in _YAML:
            return None
        try:
            document = ansible_yaml.load(text, source, self._note)
        except InventoryError:
            if path.suffix or text.lstrip().startswith("---"):
                raise
            return None
        if path.suffix and not isinstance(document, Mapping):
            raise InventoryError(f"{source}: not an inventory: expected a map of groups")
        return document

    def _vars_file(self, path: Path) -> Vars:
        source = clean(path)
        text = self._text(path)
        if text.startswith(_VAULT):
            self._note(f"{source} is ignored: it is encrypted")
            return {}
        document = ansible_yaml.load(text, source, self._note)
        if document is None or document in ("", [], False):
            return {}
        if not isinstance(document, LocatedMap):
            raise InventoryError("expected a map of variables", Mark(source, 1, 1))
        found: Vars = {}
        for key, value in document.items():
            self.tree.keep(found, key, Var(_plain(value), document.value_marks[key]))
        return found

    # YAML

    def _yaml_group(self, name: str, data: Any, mark: Mark | None, source: str, level: int) -> None:
        if level > _LEVELS:
            raise InventoryError(f"groups within groups more than {_LEVELS} deep", mark or Mark(source, 1, 1))
        if data is not None and not isinstance(data, Mapping):
            raise InventoryError(f"group {short(name)} is not a map: expected hosts, children or vars",
                                 mark or Mark(source, 1, 1))
        self.tree.group(name)
        for key, inner in (data or {}).items():
            place = _mark(data, key) or mark or Mark(source, 1, 1)
            if key not in ("hosts", "children", "vars"):
                self._note(f"{place}: {short(key)} in group {short(name)} is ignored: only hosts, children "
                           "and vars are known")
                continue
            if isinstance(inner, str):
                inner = {inner: None}
            if inner is not None and not isinstance(inner, Mapping):
                raise InventoryError(f"{key} of group {short(name)} is not a map", place)
            for each, value in (inner or {}).items():
                at = _mark(inner, each) or place
                if key == "vars":
                    self.tree.set_group(name, each, Var(_plain(value), _value_mark(inner, each) or at))
                elif key == "children":
                    self._yaml_group(each, value, at, source, level + 1)
                    self.tree.child(name, each, at)
                else:
                    self._yaml_hosts(name, each, value, at)

    def _yaml_hosts(self, group: str, pattern: str, values: Any, mark: Mark) -> None:
        if values and not isinstance(values, Mapping):
            raise InventoryError(f"host {short(pattern)} is not a map of variables", mark)
        names, port = hosts(pattern, mark)
        for name in names:
            self.tree.host(name, group, mark, port)
            for key, value in (values or {}).items():
                self.tree.set_host(name, key, Var(_plain(value), _value_mark(values, key) or mark))

    # JSON as ansible-inventory --list prints it

    def _listing(self, document: Mapping[str, Any], source: str) -> None:
        named: dict[str, None] = {}
        for name, group in document.items():
            if name == "_meta":
                continue
            data = group if isinstance(group, Mapping) else {"hosts": group}
            if data and not any(key in data for key in ("hosts", "children", "vars")):
                raise InventoryError(f"{source}: group {short(name)} has neither hosts nor children nor vars")
            self.tree.group(name)
            for host in _texts(data.get("hosts"), name, "hosts", source):
                self.tree.host(host, name, None)
                named[host] = None
            for child in _texts(data.get("children"), name, "children", source):
                self.tree.group(child)
                self.tree.child(name, child, None)
            for key, value in _map(data.get("vars"), f"vars of group {short(name)}", source).items():
                self.tree.set_group(name, key, Var(_plain(value), None))
        hostvars = _map(_map(document.get("_meta"), "_meta", source).get("hostvars"), "_meta.hostvars",
                        source)
        for host in named:
            for key, value in _map(hostvars.get(host), f"_meta.hostvars of {short(host)}", source).items():
                self.tree.set_host(host, key, Var(_plain(value), None))

    # INI

    def _ini(self, text: str, source: str) -> None:
        group, state = "ungrouped", "hosts"
        declared = set(self.tree.groups)
        wanted: dict[str, tuple[str, Mark]] = {}     # groups that are used before they are declared
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.strip()
            mark = Mark(source, number, len(raw) - len(raw.lstrip()) + 1)
            if not line or line[0] in ";#":
                continue
            if len(line) > _LINE:
                raise InventoryError(f"the line is over {_LINE} characters long", mark)
            if section := _SECTION.fullmatch(line):
                group, state = section[1], section[2] or "hosts"
                if state not in ("hosts", "children", "vars"):
                    raise InventoryError(f"section {short(section[0])}: expected [group], [group:children] "
                                         "or [group:vars]", mark)
                self.tree.group(group)
                if state == "vars":
                    wanted.setdefault(group, (f"variables are set for group {short(group)}, which", mark))
                else:
                    declared.add(group)
            elif line.startswith("[") and line.endswith("]"):
                raise InventoryError(f"{short(line)} is not a section: expected [group], [group:children] or "
                                     "[group:vars]", mark)
            elif state == "hosts":
                self._ini_hosts(line, group, mark)
            elif state == "vars":
                key, equals, value = line.partition("=")
                if not equals:
                    raise InventoryError(f"expected key=value, found {short(line)}", mark)
                self.tree.set_group(group, key.strip(), Var(literal(value.strip()), mark))
            else:
                child = _GROUP.fullmatch(line)
                if child is None:
                    raise InventoryError(f"expected the name of a group, found {short(line)}", mark)
                wanted.setdefault(child[1], (f"group {short(child[1])}, a child of {short(group)},", mark))
                self.tree.group(child[1])
                self.tree.child(group, child[1], mark)
        for name, (what, mark) in wanted.items():
            if name not in declared:
                raise InventoryError(f"{what} is not declared", mark)

    def _ini_hosts(self, line: str, group: str, mark: Mark) -> None:
        try:
            words = shlex.split(line, comments=True)
        except ValueError as problem:
            raise InventoryError(f"{short(line)}: {str(problem)[:1].lower()}{str(problem)[1:]}",
                                 mark) from None
        if not words:
            raise InventoryError(f"expected a host, found {short(line)}", mark)
        names, port = hosts(words[0], mark)
        values: Vars = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals:
                raise InventoryError(f"expected key=value after the host, found {short(word)}", mark)
            values[key] = Var(literal(value), mark)
        for name in names:
            self.tree.host(name, group, mark, port)
            for key, var in values.items():
                self.tree.set_host(name, key, var)


def hosts(pattern: str, mark: Mark) -> tuple[list[str], int | None]:
    """The host names of a pattern such as gpu[001:064:2]:2222, and the port; raises InventoryError."""
    port = None
    if found := _BRACKETED.fullmatch(pattern) or _PORT.fullmatch(pattern):
        if len(found[2]) > 9:
            raise InventoryError(f"the host {short(pattern)} has an invalid port", mark)
        pattern, port = found[1], int(found[2])
    if pattern.endswith(":") and "[" not in pattern:
        raise InventoryError(f"the host {short(pattern)} ends in ':', expected a port after it", mark)
    names = [""]
    rest = pattern
    while "[" in rest:
        head, _, rest = rest.partition("[")
        ranges, bracket, rest = rest.partition("]")
        if not bracket:
            raise InventoryError(f"the host pattern {short(pattern)}: a bracket is not closed", mark)
        steps = _range(ranges, pattern, mark)
        if len(names) * len(steps) > MAX_NODES:
            raise InventoryError(f"the host pattern {short(pattern)} names over {MAX_NODES} hosts", mark)
        names = [name + head + step for name in names for step in steps]
    return [name + rest for name in names], port


def _range(text: str, pattern: str, mark: Mark) -> list[str]:
    """[001:064], [a:f], [0:10:2]; the end is part of it."""
    def wrong(why: str) -> InventoryError:
        return InventoryError(f"the host pattern {short(pattern)}: {why}", mark)

    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        raise wrong(f"[{clean(text, 40)}] is not a range, expected [first:last] or [first:last:step]")
    first, last, step = bounds[0] or "0", bounds[1], bounds[2] if len(bounds) == 3 else "1"
    letters = string.ascii_letters
    if not re.fullmatch(r"[0-9]{1,9}", step) or int(step) == 0:
        raise wrong(f"{short(step)} is not a step")
    if len(first) == len(last) == 1 and first in letters and last in letters:
        if letters.index(first) > letters.index(last):
            raise wrong("the range runs backwards")
        return list(letters[letters.index(first): letters.index(last) + 1: int(step)])
    if not re.fullmatch(r"[0-9]{1,18}", first) or not re.fullmatch(r"[0-9]{1,18}", last):
        raise wrong(f"[{clean(text, 40)}] is not a range, expected [first:last] or [first:last:step]")
    width = len(first) if first[0] == "0" and len(first) > 1 else 0
    if width and width != len(last):
        raise wrong("the ends of a padded range need equal lengths")
    if int(first) > int(last):
        raise wrong("the range runs backwards")
    if (int(last) - int(first)) // int(step) >= MAX_NODES:
        raise wrong(f"names over {MAX_NODES} hosts")
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1, int(step))]


def literal(text: str) -> Any:
    """A value of an INI file: as a Python literal if it is one, else as text."""
    if len(text) > _LITERAL or (_NO_LITERAL.fullmatch(text) and text not in ("True", "False", "None")):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return str(value) if isinstance(value, (complex, bytes)) or value is ... else value


def _plain(value: Any) -> Any:
    """A value as variables hold it; in JSON, vault and unsafe values are maps with one key."""
    if isinstance(value, Mapping) and len(value) == 1:
        if "__ansible_vault" in value:
            return SECRET
        if "__ansible_unsafe" in value:
            return value["__ansible_unsafe"]
    return value


def _only_ansible(path: Path, root: Path, what: str) -> InventoryError:
    return InventoryError(
        f"{clean(path)}: {what}; export it with "
        f"`ansible-inventory -i {clean(root)} --list --export > hosts.json`, and import hosts.json")


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as problem:
        raise InventoryError(f"{clean(folder)}: cannot be read: {problem.strerror}") from None


def _is_listed(group: Any) -> bool:
    """Whether a group is written as inventory scripts do, with a list of hosts, and not a map."""
    return isinstance(group.get("hosts") if isinstance(group, Mapping) else group, list)


def _mark(data: Any, key: str) -> Mark | None:
    return data.key_marks.get(key) if isinstance(data, LocatedMap) else None


def _value_mark(data: Any, key: str) -> Mark | None:
    return data.value_marks.get(key) if isinstance(data, LocatedMap) else None


def _texts(value: Any, group: str, key: str, source: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InventoryError(f"{source}: {key} of group {short(group)} is not a list of names")
    return value


def _map(value: Any, what: str, source: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InventoryError(f"{source}: {what} is not a map")
    return value
