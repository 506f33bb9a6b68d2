"""The main part of the root-owned helper: takes only ids of probes and replies with what they capture.

`muster privilege helper` prints the program: the collector's text, a table of the probes that need root, and
this. It runs as root for a user who may not be trusted with root: the caller chooses which of the table's
probes run, and nothing else, neither by the environment nor by the folder or further arguments. The end of
standard input ends it. Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import zlib
from typing import Any, Dict, List, NoReturn, Sequence

from healthcheck.collector.onnode.helperchild import HELPER_RUNS, digest
from healthcheck.collector.onnode.run import CollectorRun, lower_priority
from healthcheck.collector.onnode.system import kill_all

MOST_IDS = 256
ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def parse_ids(words: Sequence[str]) -> List[str]:
    """The ids of probes in the arguments; raises ValueError for anything else, a repetition, or too many."""
    if not 1 <= len(words) <= MOST_IDS:
        raise ValueError("expected 1 to %d ids of probes" % MOST_IDS)
    for word in words:
        if ID.fullmatch(word) is None:
            raise ValueError("expected only ids of probes")
    if len(set(words)) < len(words):
        raise ValueError("expected each id once")
    return list(words)


def replaceable_path(path: str) -> str:
    """The first of this file and its parent folders that not only root could replace; empty without one."""
    path = os.path.realpath(path)
    while True:
        found = os.stat(path)
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_uid or (found.st_mode & 0o022 and not sticky):
            return path
        if path == "/":
            return ""
        path = os.path.dirname(path)


def refuse(why: str) -> NoReturn:
    """Exits with status 2 before anything was touched."""
    os.write(2, ("muster-probe: %s\n" % why).encode("utf-8", "replace"))
    sys.exit(2)


def serve(words: Sequence[str], table: Dict[str, Any]) -> None:
    """Runs the table's probes of these ids and replies on standard output. It ignores unknown ids."""
    try:
        ids = parse_ids(words)
    except ValueError as error:
        refuse(str(error))
    if os.geteuid():
        refuse("must run as root, through sudo")
    weak = replaceable_path(__file__)
    if weak:
        refuse("users other than root may write to %s" % weak)
    probes = [probe for probe in table["probes"] if probe["id"] in ids]

    class HelperRun(CollectorRun):
        def document(self) -> Dict[str, Any]:
            return dict(CollectorRun.document(self), digests={probe["id"]: digest(probe) for probe in probes})

        def packed(self) -> bytes:
            # To a collector that may be of another version.
            return zlib.compress(json.dumps(self.document()).encode(), 3)

    # A caller may have closed the first three: no file of ours must get one of their numbers.
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    lower_priority()
    run = HelperRun("helper", dict(table, probes=probes), 0)
    try:
        # After the clock is set: perhaps no one reads.
        os.write(1, HELPER_RUNS)
        run.collect()
        run.answer()
    finally:
        kill_all([child.pid for child in run.live])
    os._exit(0)
