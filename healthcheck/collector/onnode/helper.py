"""The end of the root-owned helper: takes the ids of probes and nothing else, and answers with what they capture.

`muster privilege helper` prints the program: the collector's text, a table of the probes that need root, and this. It runs as
root for a user who may not be trusted with root, so nothing that the caller can choose matters except which of the table's
probes run: not the environment, not the folder, not more arguments. The end of standard input ends it. Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import zlib
from typing import Any, Dict, List, NoReturn, Sequence

from healthcheck.collector.onnode.rooted import HELPER_RUNS, digest
from healthcheck.collector.onnode.run import CollectorRun, step_aside
from healthcheck.collector.onnode.system import slay

MOST_IDS = 256
ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def asked(words: Sequence[str]) -> List[str]:
    """The ids of probes that these arguments are; raises ValueError unless all of them are, each once, and not too many."""
    if not 1 <= len(words) <= MOST_IDS:
        raise ValueError("expected 1 to %d ids of probes" % MOST_IDS)
    for word in words:
        if ID.fullmatch(word) is None:
            raise ValueError("expected ids of probes, and nothing else")
    if len(set(words)) < len(words):
        raise ValueError("expected each id once")
    return list(words)


def exposed(path: str) -> str:
    """The first of this file and the folders above it that somebody other than root could replace; empty if there is none."""
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
    """Ends with status 2, before anything was touched."""
    os.write(2, ("muster-probe: %s\n" % why).encode("utf-8", "replace"))
    sys.exit(2)


def serve(words: Sequence[str], table: Dict[str, Any]) -> None:
    """Runs the table's probes of these ids and answers on standard output. An id that the table lacks is left out of the answer."""
    try:
        ids = asked(words)
    except ValueError as error:
        refuse(str(error))
    if os.geteuid():
        refuse("must run as root, through sudo")
    weak = exposed(__file__)
    if weak:
        refuse("others than root may write to %s" % weak)
    probes = [probe for probe in table["probes"] if probe["id"] in ids]

    class Answering(CollectorRun):
        def document(self) -> Dict[str, Any]:
            return dict(CollectorRun.document(self), digests={probe["id"]: digest(probe) for probe in probes})

        def packed(self) -> bytes:
            # To a collector that may be of another version.
            return zlib.compress(json.dumps(self.document()).encode(), 3)

    # A caller may have closed the first three: what we open must not be taken for one of them.
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    step_aside()
    run = Answering("helper", dict(table, probes=probes), 0)
    try:
        # Now that the clock is set: nobody may be reading.
        os.write(1, HELPER_RUNS)
        run.collect()
        run.answer()
    finally:
        slay([child.pid for child in run.live])
    os._exit(0)
