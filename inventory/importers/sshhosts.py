"""Reads nodes from ~/.ssh/config: the hosts that it gives by their full names."""

from __future__ import annotations

from inventory.errors import UsageError
from inventory.importers.base import Collected, Imported
from inventory.nodeset import NAME
from inventory.sshconfig import SshConfig
from inventory.sshjump import parse_jump

SOURCE = "~/.ssh/config"


def hosts(config: SshConfig) -> Imported:
    """The hosts of the user's file without jump hosts and servers of git; only names, as muster reads the
    rest from ssh_config each time. Raises UsageError where there is none, ConfigError for a broken file."""
    collected = Collected(SOURCE)
    found = {name: config.lookup(name) for name in config.hosts()}
    jumps = {hop.host for options in found.values()
             if options.proxy_jump is not None and options.proxy_jump.lower() != "none"
             for hop in parse_jump(options.proxy_jump)}
    for name, options in found.items():
        if not NAME.fullmatch(name):
            collected.note(f"left out: {name!r} is not a node name")
        elif name in jumps or options.hostname in jumps:
            collected.note("left out, as others are reached through it", name)
        elif options.user == "git":
            collected.note("left out, as its user is git", name)
        else:
            collected.node(name, {})
    if not collected.nodes:
        raise UsageError(f"{SOURCE} names no host that could be a node; name them: muster init "
                         "'gpu[001-064]'")
    return collected.done()
