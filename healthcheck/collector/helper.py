"""The root-owned helper: a node's administrator installs it so that a sweep sees only what needs root.

It is one Python file that knows some probes and takes only their ids. The collector runs it through sudo
(`healthcheck.collector.onnode.helper`). No code is ever sent to it.
"""

from __future__ import annotations

import os
import pprint
import re
from collections.abc import Iterable

from healthcheck.collector.joined import FUTURE, HELPER, joined
from healthcheck.model.probes import Probe, ProbeSet
from inventory.errors import UsageError
from inventory.text import short

PATH = "/opt/muster/libexec/muster-probe"
_PATH = re.compile(r"(?:/[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,100}){1,20}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def path() -> str:
    """The helper's path on the nodes: MUSTER_HELPER, else the default. Raises UsageError."""
    return checked_path(os.environ.get("MUSTER_HELPER") or PATH, "MUSTER_HELPER")


def checked_path(text: str, what: str) -> str:
    """The path, if it is absolute and free of characters special to shells and sudoers; raises UsageError."""
    if _PATH.fullmatch(text) is None:
        raise UsageError(
            f"{what} is {short(text)}, expected an absolute path of letters, digits, '.', '_', '-' and '+', "
            f"such as {PATH}")
    return text


def program(probes: Iterable[Probe], python: str = "/usr/bin/python3") -> str:
    """The helper's text for these probes. Equal probes give equal text."""
    table = pprint.pformat(ProbeSet.of(probes).to_json(), width=120, sort_dicts=False)
    return "\n".join((
        f"#!{checked_path(python, '--python')} -IS",
        "# muster-probe: captures, as root, only what the table of probes near the end of this file names.",
        "# Made by `muster privilege helper`. Install it with owner root and mode 0755.",
        FUTURE + "import os as _os",
        "# The caller's environment is ignored.",
        "_os.environ.clear()",
        '_os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"',
        joined(HELPER).removeprefix(FUTURE),
        f"serve(sys.argv[1:], {table})", "",
    ))


def sudoers(user: str, path: str) -> str:
    """The text for /etc/sudoers.d/ that lets this user run only the helper as root, without a password."""
    if _USER.fullmatch(user) is None or user == "ALL":
        raise UsageError(f"--user is {short(user)}, expected a user name")
    checked_path(path, "--path")
    return (
        f"# {user} may run muster's helper as root: it takes only ids of probes.\n"
        f"Defaults!{path} !requiretty, env_reset, !setenv\n"
        f"{user} ALL=(root) NOPASSWD: {path}\n"
    )


def by_hand(user: str, path: str) -> str:
    """The commands, as comments, that install both on a node."""
    folder = path.rpartition("/")[0] or "/"
    return (
        "#\n# To install both on a node, as root:\n"
        f"#   install -d -o root -g root -m 0755 {folder}\n"
        f"#   muster privilege helper > muster-probe && install -o root -g root -m 0755 muster-probe {path}\n"
        f"#   muster privilege sudoers --user {user} > muster.sudoers && visudo -cf muster.sudoers\n"
        "#   install -o root -g root -m 0440 muster.sudoers /etc/sudoers.d/muster\n"
        f"# To try it, as {user}:  sleep 9 | sudo -n -- {path} kernel.log | head -1\n"
    )
