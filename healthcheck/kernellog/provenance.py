"""Keeps apart what the kernel wrote to its log and what processes wrote there, in the texts of the records themselves.

The kernel gives each record a facility (Documentation/ABI/testing/dev-kmsg): 0 is its own, and no process can write with it. A record of
another facility gets the mark USER_SPACE before its text, unless it names its program as daemons do (`systemd[1]: `), which nothing of the
kernel's begins with. So a line that imitates the kernel's begins otherwise, and no pattern that holds from a message's start knows it.
"""

from __future__ import annotations

import re

# No process has so long a name, and no driver's messages begin so: nothing that the kernel writes begins with it.
USER_SPACE = "written by user space: "
USER = 1            # the facility of what a process writes to /dev/kmsg and does not call otherwise
# (udev-worker)[312]: is one of systemd's; of systemd itself only process 1 counts, the others are users'.
_DAEMON = r"(?!systemd\[(?!1\]))\(?[A-Za-z][\w.@+-]{0,62}\)?\[\d{1,10}\]: "
_NAMED = re.compile(_DAEMON, re.ASCII)
# Records of a facility above 0, whose priority is 8 or more, that are not marked yet and name no daemon.
_WRITTEN = re.compile(rf"^(?:[89]|\d{{2,6}}),\d{{1,20}},\d{{1,20}},[^;\n]{{0,200}};(?!{_DAEMON}|{USER_SPACE})", re.MULTILINE | re.ASCII)


def marked(text: str, facility: int) -> str:
    """The text of a record of this facility, so that it is seen who wrote it."""
    return text if not facility or _NAMED.match(text) or text.startswith(USER_SPACE) else USER_SPACE + text


def marked_records(log: str) -> str:
    """The same of all records of a log in the form of /dev/kmsg."""
    return _WRITTEN.sub(rf"\g<0>{USER_SPACE}", log) if _WRITTEN.search(log) else log
