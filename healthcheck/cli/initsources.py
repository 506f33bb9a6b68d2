"""Where `muster init` takes the nodes from: options, or answers to its first question."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from inventory.errors import MusterError, UsageError
from inventory.importers import ansible, names, slurm, sshhosts
from inventory.importers.base import MAX_BYTES, Imported, read
from inventory.load import parse_with_origins
from inventory.nodeset import fold
from inventory.select import select
from inventory.sshconfig import default_config
from inventory.text import clean

_ANSIBLE = Path("/etc/ansible/hosts")


@dataclass(frozen=True)
class InitSources:
    """The options that name nodes; `nodes` choose among what one of the others names, or name them
    themselves."""

    nodes: str | None
    slurm: bool
    ansible: str | None
    ssh: bool
    list: str | None

    def __post_init__(self) -> None:
        given = [option for option, used in (
            ("--from-slurm", self.slurm), ("--from-ansible", self.ansible is not None),
            ("--from-ssh-config", self.ssh), ("--from-file", self.list is not None)) if used]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} exclude each other")

    def take(self) -> Imported | None:
        """The nodes that they name; None where none of them is given."""
        if self.slurm:
            found = slurm.live()
        elif self.ansible is not None:
            found = ansible.load(Path(self.ansible).expanduser())
        elif self.ssh:
            found = sshhosts.hosts(default_config())
        elif self.list is not None:
            found = _list(self.list)
        else:
            return None if self.nodes is None else names.typed(self.nodes)
        return found if self.nodes is None else chosen(found, self.nodes)


def asked() -> Imported:
    """The same by questions on the terminal, which go on until an answer names nodes."""
    click.echo("Which machines? Names or node sets, such as gpu[001-016]; or a file with a name a line; or:",
               err=True)
    offered = _offered()
    for word, what in offered.items():
        click.echo(f"  {word:<18}  {what}", err=True)
    while True:
        answer = click.prompt("Machines", err=True).strip()
        try:
            found = _answered(answer)
            if found.source == names.TYPED:
                return found
            click.echo(f"{len(found.nodes)} nodes ({found.source}): {_few(found)}", err=True)
            for note in found.notes:
                click.echo(f"note: {clean(note, 1000)}", err=True)
            found = replace(found, notes=())
            which = click.prompt("Enter takes all; or type those to take", default="", show_default=False,
                                 err=True).strip()
            return chosen(found, which) if which else found
        except MusterError as problem:
            click.echo(f"muster: {problem}", err=True)


def chosen(found: Imported, text: str) -> Imported:
    """The nodes of a source that a node set names; it may name the source's groups, and use wildcards."""
    from inventory.merge import new_file

    whole = parse_with_origins(new_file(found, found.source).text, found.source).inventory
    kept = {node.name for node in select(whole, text)}
    groups = {group: own for group, members in found.groups.items()
              if (own := tuple(name for name in members if name in kept))}
    return replace(found, nodes={name: values for name, values in found.nodes.items() if name in kept},
                   groups=groups)


def _offered() -> dict[str, str]:
    offered = {}
    if shutil.which("scontrol") is not None:
        offered["slurm"] = "what Slurm knows (scontrol show node)"
    try:
        hosts = default_config().hosts()
    except MusterError:
        hosts = ()      # choosing it says what is wrong
    if hosts:
        offered["ssh"] = f"the hosts of ~/.ssh/config: {len(hosts)}, such as {clean(hosts[0], 60)}"
    offered["ansible PATH"] = "an Ansible inventory" + (
        f", such as {_ANSIBLE}" if os.access(_ANSIBLE, os.R_OK) else "")
    return offered


def _answered(answer: str) -> Imported:
    word, _, rest = answer.partition(" ")
    if answer == "slurm":
        return slurm.live()
    if answer == "ssh":
        return sshhosts.hosts(default_config())
    if word == "ansible" and rest.strip():
        return ansible.load(Path(rest.strip()).expanduser())
    path = Path(answer).expanduser()
    return _list(str(path)) if "/" in answer or path.is_file() else names.typed(answer)


def _list(path: str) -> Imported:
    if path == "-":
        return names.parse(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    return names.parse(read(path), path)


def _few(found: Imported) -> str:
    text = fold(found.nodes)
    return text if len(text) <= 300 else f"{next(iter(found.nodes))} and {len(found.nodes) - 1} others"
