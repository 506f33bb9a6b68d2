"""Distinguishes what the kernel wrote to its log from what processes wrote, in the texts of the records.

The kernel gives each record a facility (Documentation/ABI/testing/dev-kmsg): 0 is its own, and no process can
write with it. A record of another facility gets the mark USER_SPACE before its text, unless it names its
program as daemons do (`systemd[1]: `): no kernel message begins so. A line that imitates the kernel's
therefore begins differently, and no pattern that is anchored at a message's start matches it.
"""

from __future__ import annotations

import re

# No process has so long a name, and no driver's messages begin so: no kernel message begins with it.
USER_SPACE = "written by user space: "
USER = 1            # the facility of a process's record in /dev/kmsg, unless it names another
# (udev-worker)[312]: is one of systemd's. Of systemd itself only process 1 counts; the others are users'.
_DAEMON = r"(?!systemd\[(?!1\]))\(?[A-Za-z][\w.@+-]{0,62}\)?\[\d{1,10}\]: "
_NAMED = re.compile(_DAEMON, re.ASCII)
# Records of a facility above 0 (their priority is 8 or more) that are not marked yet and name no daemon.
_WRITTEN = re.compile(
    rf"^(?:[89]|\d{{2,6}}),\d{{1,20}},\d{{1,20}},[^;\n]{{0,200}};(?!{_DAEMON}|{USER_SPACE})",
    re.MULTILINE | re.ASCII)


def marked(text: str, facility: int) -> str:
    """The text of a record of this facility, marked if a process wrote it."""
    return text if not facility or _NAMED.match(text) or text.startswith(USER_SPACE) else USER_SPACE + text


def marked_records(log: str) -> str:
    """The same for all records of a log in the format of /dev/kmsg."""
    return _WRITTEN.sub(rf"\g<0>{USER_SPACE}", log) if _WRITTEN.search(log) else log
