"""Ansible's hosts, groups and variables, and which value of a variable wins for a host.

From weakest to strongest, as Ansible documents it: variables of the group all; those of other groups, parents
before children, among equally deep ones by `ansible_group_priority` and then by name; group_vars/all;
group_vars of the other groups in the same order; the host's own; host_vars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from inventory.errors import InventoryError, Mark
from inventory.nodeset import MAX_MENTIONS, MAX_NODES
from inventory.text import short

WANTED = frozenset({
    "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user",
    "ansible_ssh_user", "ansible_private_key_file", "ansible_ssh_private_key_file",
    "ansible_python_interpreter", "ansible_connection", "ansible_become", "ansible_become_method",
    "ansible_become_user", "ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args",
})
PRIORITY = "ansible_group_priority"
MAX_DEPTH = 50


class VaultValue:
    """Stands for a value that is encrypted with Ansible's vault."""


SECRET = VaultValue()


class Var(NamedTuple):
    """One variable's value and its place."""

    value: Any
    mark: Mark | None


Vars = dict[str, Var]


@dataclass
class AnsibleGroup:
    """One group as it is read; hosts and children in the order in which they are named."""

    name: str
    vars: Vars = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, Mark | None] = field(default_factory=dict)
    priority: int = 1


class Tree:
    """All that the sources of one inventory hold; fill it first, then query it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.groups: dict[str, AnsibleGroup] = {"all": AnsibleGroup("all"),
                                                "ungrouped": AnsibleGroup("ungrouped")}
        self.hosts: dict[str, Vars] = {}
        self.places: dict[str, Mark | None] = {}
        self.others: dict[str, None] = {}       # names of variables that we ignore
        self.notes: dict[str, None] = {}
        self._mentions = 0
        self._parents: dict[str, list[str]] = {}
        self._direct: dict[str, list[str]] = {}
        self._depth: dict[str, int] = {}
        self._lines: dict[str, frozenset[str]] = {}

    # reading

    def group(self, name: str) -> AnsibleGroup:
        """The group of this name, created if new."""
        self._count()
        return self.groups.setdefault(name, AnsibleGroup(name))

    def host(self, name: str, group: str, mark: Mark | None, port: int | None = None) -> None:
        """Puts a host into a group; a port counts only where the host is named first."""
        self._count()
        if name not in self.hosts:
            if len(self.hosts) >= MAX_NODES:
                raise InventoryError(f"names over {MAX_NODES} hosts", mark or Mark(self.source, 1, 1))
            self.hosts[name] = {} if port is None else {"ansible_port": Var(port, mark)}
            self.places[name] = mark
        self.groups[group].hosts[name] = None

    def child(self, parent: str, child: str, mark: Mark | None) -> None:
        """Makes a group the child of another."""
        self._count()
        self.groups[parent].children.setdefault(child, mark)

    def set_host(self, name: str, key: str, var: Var) -> None:
        """Sets a host's variable; like Ansible, that of the group where there is one of the same name."""
        if name in self.groups:
            self.set_group(name, key, var)
        else:
            self.keep(self.hosts[name], key, var)

    def set_group(self, name: str, key: str, var: Var) -> None:
        """Sets a group's variable, or its priority."""
        if key != PRIORITY:
            self.keep(self.groups[name].vars, key, var)
            return
        try:
            self.groups[name].priority = int(var.value)
        except (TypeError, ValueError):
            message = f"{PRIORITY} of group {short(name)} is {short(var.value)}, expected a whole number"
            raise InventoryError(message, var.mark or Mark(self.source, 1, 1)) from None

    def keep(self, into: Vars, key: str, var: Var) -> None:
        """Stores a variable that we use, or only the name of another."""
        if key in WANTED:
            into[key] = var
        elif len(self.others) < 1000:
            self.others[key] = None

    def _count(self) -> None:
        self._mentions += 1
        if self._mentions > MAX_MENTIONS:
            raise InventoryError(f"{self.source}: names over {MAX_MENTIONS} hosts and groups in all")

    # asking

    def settle(self) -> None:
        """Ends the reading. Raises InventoryError for groups in a cycle or over 50 deep."""
        order = self._ordered()
        children = {name for group in self.groups.values() for name in group.children}
        for name, group in self.groups.items():
            for child in group.children:
                self._parents.setdefault(child, []).append(name)
            if name != "all" and name not in children:
                self._parents.setdefault(name, []).append("all")
        for name in ["all", *(each for each in order if each != "all")]:
            parents = self._parents.get(name, [])
            self._depth[name] = 1 + max((self._depth[parent] for parent in parents), default=-1)
            if self._depth[name] > MAX_DEPTH:
                raise InventoryError(f"{self.source}: groups within groups more than {MAX_DEPTH} deep")
            self._lines[name] = frozenset({name}.union(*(self._lines[parent] for parent in parents)))
        for name, group in self.groups.items():
            for host in group.hosts:
                self._direct.setdefault(host, []).append(name)

    def _ordered(self) -> list[str]:
        """Group names, parents before children."""
        waiting = dict.fromkeys(self.groups, 0)
        for group in self.groups.values():
            for child in group.children:
                waiting[child] += 1
        ready = [name for name, number in waiting.items() if number == 0]
        for name in ready:      # grows as it is read
            for child in self.groups[name].children:
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        # A group above `all` would contain itself, since `all` contains every group.
        left = [name for name, number in waiting.items() if number > 0]
        if (not left and self.groups["all"].name in {child for group in self.groups.values()
                                                     for child in group.children}):
            left = ["all"]
        if left:
            mark = next((group.children[name] for name in left for group in self.groups.values()
                         if name in group.children), None)
            raise InventoryError(f"group {short(left[0])} contains itself through its children",
                                 mark or Mark(self.source, 1, 1))
        return ready

    def groups_of(self, host: str) -> list[str]:
        """The groups that a host is in, weakest first; `all` is always among them."""
        direct = [name for name in self._direct.get(host, []) if name not in ("all", "ungrouped")]
        if not direct:
            direct = ["ungrouped"]
        found = frozenset({"all"}.union(*(self._lines[name] for name in direct)))
        return sorted(found, key=lambda name: (self._depth[name], self.groups[name].priority, name))

    def effective(self, host: str, from_files: Callable[[str, str], Mapping[str, Var]]) -> Vars:
        """The variables that hold for a host; `from_files(kind of folder, name)` gives those beside it."""
        groups = self.groups_of(host)
        layers: Iterable[Mapping[str, Var]] = (
            *(self.groups[name].vars for name in groups),
            *(from_files("group_vars", name) for name in groups), self.hosts[host],
            from_files("host_vars", host),
        )
        merged: Vars = {}
        for layer in layers:
            merged.update(layer)
        return merged
