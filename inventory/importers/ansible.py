"""Hosts of an Ansible inventory, in INI, YAML, folders or `ansible-inventory --list --export`'s form. It
takes how a host is reached (address, port, user, key, jump host, Python, become) and its groups. It ignores
other variables: give rack or SKU in the inventory itself, or by a CSV. Templates (`{{ }}`) and encrypted
values are left out, each with a note."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inventory.errors import ConfigError, InventoryError, Mark
from inventory.importers.ansible_files import AnsibleReader
from inventory.importers.ansible_tree import SECRET, Tree, Var, Vars
from inventory.importers.base import Collected, Imported
from inventory.sshjump import parse_jump
from inventory.text import clean, short

_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
# Of several names for one setting, Ansible takes the last that is set:
# options of plugins/connection/ssh.py of ansible-core 2.19.
_HOST = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY = ("ansible_private_key_file", "ansible_ssh_private_key_file")
# in the order in which ssh gets them
_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_ARGS_LENGTH = 4096
_SSH = frozenset({"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh",
                  "ansible.builtin.paramiko_ssh"})
_PROXIES = {"proxyjump": "ProxyJump", "proxycommand": "ProxyCommand"}
_ASSIGNED = re.compile(r"\s*=\s*|\s+")      # ssh takes "Key=value" and "Key value"
_TRUE = frozenset({"y", "yes", "on", "1", "true", "t"})


def load(path: str | os.PathLike[str]) -> Imported:
    """The hosts of the inventory at `path`, a file or a folder, with group_vars and host_vars beside it. Runs
    nothing. Raises InventoryError, one line with the place: also for one that only Ansible can read (a
    program, a plugin's configuration, an encrypted file), and for what our inventory cannot hold."""
    source = clean(os.fspath(path))
    tree = Tree(source)
    files = AnsibleReader(Path(path), tree)
    files.inventory()
    tree.settle()
    collected = Collected(source)
    for name in tree.hosts:
        _Host(name, tree.effective(name, files.beside), collected).add(tree.places[name])
    for name in tree.hosts:
        for group in tree.groups_of(name):
            if group not in ("all", "ungrouped"):
                collected.member(group, name)
    for note in tree.notes:
        collected.note(note)
    for name in sorted(tree.groups.keys() & tree.hosts.keys()):
        collected.note(f"{short(name)} is a host and a group; as in Ansible, variables of one may have "
                       "become those of the other")
    if tree.others:
        names = sorted(tree.others)
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        collected.note(
            f"variables not about reaching a host are ignored: {', '.join(map(clean, names[:10]))}{more}")
    return collected.done()


class _Host:
    """Translates one host's variables to our keys."""

    def __init__(self, name: str, variables: Vars, collected: Collected) -> None:
        self._name = name
        self._vars = variables
        self._collected = collected
        self._values: dict[str, Any] = {}
        self._marks: dict[str, Mark] = {}

    def add(self, mark: Mark | None) -> None:
        """Adds the node to what is collected."""
        for key, names in (("address", _HOST), ("user", _USER)):
            if (found := self._text(names)) and not (key == "address" and found[0] == self._name):
                self._set(key, *found)
        if found := self._text(_PORT):
            text, var = found
            self._set("port", int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text, var)
        self._key_file()
        self._python()
        self._become()
        self._jump()
        connection = self._text(("ansible_connection",))
        if connection and connection[0] not in _SSH:
            self._note(f"ansible_connection={clean(connection[0], 60)} is ignored: muster reaches every node "
                       "over SSH")
        self._collected.node(self._name, self._values, mark, self._marks)

    def _set(self, key: str, value: Any, var: Var) -> None:
        self._values[key] = value
        if var.mark is not None:
            self._marks[key] = var.mark

    def _note(self, text: str) -> None:
        self._collected.note(text, self._name)

    def _text(self, names: tuple[str, ...]) -> tuple[str, Var] | None:
        """The value that Ansible would use, as text; None when there is none, or it cannot be read here."""
        for name in reversed(names):
            var = self._vars.get(name)
            if var is None or var.value is None or var.value == "":
                continue
            if var.value is SECRET:
                self._note(f"{name} is ignored: it is encrypted")
            elif isinstance(var.value, str) and _TEMPLATE.search(var.value):
                self._note(f"{name} is ignored: {short(var.value)} is a template")
            elif isinstance(var.value, (str, int, float)):
                return str(var.value), var
            else:
                raise self._wrong(name, var, "text")
            return None
        return None

    def _wrong(self, name: str, var: Var, expected: str) -> InventoryError:
        shown = ("a map" if isinstance(var.value, Mapping) else "a list"
                 if isinstance(var.value, (list, tuple, set)) else short(var.value))
        return self._collected.error(f"{name} of {self._name} is {shown}, expected {expected}", var.mark)

    def _key_file(self) -> None:
        if found := self._text(_KEY):
            self._set("identity_file", *found)
            if not found[0].startswith(("/", "~")):
                self._note(f"identity_file {short(found[0])} is relative: it is searched beside the "
                           "inventory that it is written to")

    def _python(self) -> None:
        found = self._text(("ansible_python_interpreter",))
        if not found or found[0].startswith("auto"):       # auto, auto_silent, auto_legacy: what it finds
            return
        if any(char.isspace() for char in found[0]):
            self._note(f"ansible_python_interpreter {short(found[0])} is ignored: expected one program "
                       "without arguments")
        else:
            self._set("python", *found)

    def _become(self) -> None:
        found = self._text(("ansible_become",))
        if not found or found[0].lower() not in _TRUE:
            return
        method, user = self._text(("ansible_become_method",)), self._text(("ansible_become_user",))
        if method and method[0] not in ("sudo", "ansible.builtin.sudo"):
            self._note("ansible_become is ignored: muster becomes root with sudo, not "
                       f"{clean(method[0], 60)}")
        elif user and user[0] != "root":
            self._note(f"ansible_become is ignored: muster becomes root, not {clean(user[0], 60)}")
        else:
            self._set("privilege", "become", found[1])

    def _jump(self) -> None:
        """The jump host among the arguments of ssh, where the first one given counts."""
        left: list[str] = []
        for name in _ARGS:
            found = self._text((name,))
            if not found:
                continue
            if len(found[0]) > _ARGS_LENGTH:
                raise self._collected.error(f"{name} of {self._name} is over {_ARGS_LENGTH} characters long",
                                            found[1].mark)
            try:
                options = _options(shlex.split(found[0]))
            except ValueError:
                raise self._wrong(name, found[1], "arguments of ssh with closed quotes") from None
            for option, value in options:
                jump = _jump_of(option, value)
                if jump is None or "proxy_jump" in self._values:
                    left.append(f"{option}={value}" if value else option)
                else:
                    self._set("proxy_jump", jump, found[1])
        if left:
            self._note(f"arguments of ssh are ignored: {clean(', '.join(left), 160)}")


def _options(words: list[str]) -> list[tuple[str, str]]:
    """Arguments of ssh as (option, value): -o ProxyJump=b, -oProxyJump=b, -J b are ("ProxyJump", "b")."""
    found: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        flag, value = word[:2], word[2:]
        if flag == "-J":
            found.append(("ProxyJump", value or next(rest, "")))
        elif flag == "-o":
            key, _, after = _ASSIGNED.sub("=", (value or next(rest, "")).strip(), count=1).partition("=")
            found.append((_PROXIES.get(key.lower(), key), after.strip('"')))
        else:
            found.append((word, ""))
    return found


def _jump_of(option: str, value: str) -> str | None:
    """The proxy_jump for one option, or None for another option or an unusable value."""
    jump = value if option == "ProxyJump" else _through(value) if option == "ProxyCommand" else None
    if jump is None:
        return None
    try:
        parse_jump(jump)
    except ConfigError:
        return None
    return jump


def _through(command: str) -> str | None:
    """The jump host of `ssh -W %h:%p [-q] [-p PORT] [-l USER] HOST`, the form before ProxyJump."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or words[0] not in ("ssh", "/usr/bin/ssh"):
        return None
    given: dict[str, str] = {}
    names: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-W", "-p", "-l"):
            given[word] = next(rest, "")
        elif word.startswith("-"):
            if word != "-q":
                return None
        else:
            names.append(word)
    if len(names) != 1 or given.get("-W") not in ("%h:%p", "[%h]:%p"):
        return None
    host = names[0] if "-l" not in given else f"{given['-l']}@{names[0].rpartition('@')[2]}"
    return f"{host}:{given['-p']}" if "-p" in given else host
