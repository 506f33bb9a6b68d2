"""Which kernel modules are loaded, from /proc/modules (proc(5)): one module a line, its name first."""

from __future__ import annotations

import re

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import matched
from healthcheck.facts.values import Fact, Unread
from healthcheck.model.probes import Probe, ProbeKind

PATH = "/proc/modules"
MODULES = Probe("module.loaded", ProbeKind.FILES, paths=(PATH,))

# name, size, users, used by, state, address (fs/proc, kernel/module/procfs.c m_show).
_LINE = re.compile(r"([A-Za-z0-9_]{1,64}) [0-9]{1,12} (?:[0-9]{1,9}|-) \S+ (Live|Loading|Unloading)\b.*")


class Modules(Fact):
    """Names of the modules that are in place (Live); UNSUPPORTED on a kernel that has none."""

    name: str
    loaded: frozenset[str]


def live(text: str) -> frozenset[str]:
    """The modules in state Live; raises ValueError for a line in another format than the kernel's."""
    found = [matched(_LINE, line) for line in text.splitlines()]
    return frozenset(match[1] for match in found if match[2] == "Live")


@fact("modules", MODULES)
def modules(captures: Captures) -> Modules:
    """The loaded modules; UNSUPPORTED for a kernel without module support, which has no such file."""
    files = captures.files(MODULES)
    if list(files) and not files.has(PATH):
        return Modules.absent("modules")
    loaded = files.read(PATH, live)
    if isinstance(loaded, frozenset):
        return Modules("modules", loaded)
    raise Unread(loaded.reason)
