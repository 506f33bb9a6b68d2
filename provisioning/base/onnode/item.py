"""One item of the base configuration: its state, what would change, the change. Python 3.8."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable

from provisioning.agent.onnode.files import put
from provisioning.base.onnode.answer import LocalHost, plain

# Only a file that begins with this is muster's to write, and it is always written whole.
MARK = "# Made by muster"
HEADER = (MARK + " (muster bringup base), which writes it whole: what is wanted stands in `base:` of "
                 "muster's rules, bringup.yaml.\n")


class BaseItem:
    """`state` is so, differs, wait, trouble, absent (nothing here to set), out (not wanted) or unseen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "so"
        self.message = ""
        self.change: list[str] = []
        self.doing: list[Callable[[], Any]] = []

    def is_(self, state: str, message: str) -> BaseItem:
        self.state, self.message = state, message
        return self

    def differs(self, change: list[str], do: Callable[[], Any]) -> None:
        """Something to be made so; nothing is, where the item is in trouble."""
        self.change += change
        self.doing.append(do)
        if self.state == "so":
            self.state = "differs"

    def trouble(self, message: str) -> None:
        """A person has to act; the first message is kept."""
        if self.state != "trouble":
            self.is_("trouble", message)

    def report(self) -> dict[str, Any]:
        """As the head reads it. What is in trouble is not changed."""
        return {
            "item": self.name, "stand": self.state, "message": self.message,
            "change": self.change if self.state == "differs" else []}


def own(host: LocalHost, item: BaseItem, path: str, text: str) -> None:
    """Finds whether this file of muster's holds this text; another's is left as it is."""
    there = host.root + path
    try:
        found = os.lstat(there)
    except (FileNotFoundError, NotADirectoryError):
        old, regular, mode = "", True, 0o644
    else:
        regular, mode = stat.S_ISREG(found.st_mode), stat.S_IMODE(found.st_mode)
        old = host.read(path) or "" if regular else ""
    if not regular:
        item.trouble("%s is no plain file, and not muster's: move it away, or leave the item out (base: in "
                     "muster's rules)" % path)
        return
    if old and not old.startswith(MARK):
        if plain(old) != plain(text):
            item.trouble("%s is not muster's; yours says: %s; move it away, or leave the item out (base: in "
                         "muster's rules)" % (path, "; ".join(plain(old)[:3]) or "nothing"))
        return
    if old == HEADER + text and mode == 0o644:
        return
    before, after = plain(old), plain(text)
    lines = ["- " + line for line in before if line not in after] + [
        "+ " + line for line in after if line not in before]
    item.differs(
        [path + ("" if old else " (new)"), *(lines or ["written anew"])], lambda: wrote(host, path, text))


def wrote(host: LocalHost, path: str, text: str) -> None:
    """Afterwards the file holds this, after muster's line."""
    os.makedirs(os.path.dirname(host.root + path), 0o755, exist_ok=True)
    put(host.root + path, (HEADER + text).encode(), 0o644)
