"""Which reader reads what: by the name of a source, which is that of its file in a folder of saved outputs.

A folder may hold several outputs of one tool ("perfquery-leaf01.txt"): what counts is the beginning of the
name. The order is that in which readings are merged: what knows more of a thing comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from healthcheck.subnet.readers import counters, dbcsv, linkinfo, ports, routes, sa, smp, topology
from healthcheck.subnet.readers.building import SubnetReading


class Source(NamedTuple):
    """A source of readings: how its file's name begins, its reader, and the command that prints it."""

    name: str
    read: Callable[[str, bool], SubnetReading]
    command: str


SOURCES = (
    Source("ibdiagnet2.db_csv", dbcsv.read, "ibdiagnet"),
    Source("iblinkinfo", linkinfo.read, "iblinkinfo --line"),
    Source("ibnetdiscover-p", ports.read, "ibnetdiscover -p"),
    Source("ibnetdiscover", topology.read, "ibnetdiscover"),
    Source("ibqueryerrors", counters.read_errors, "ibqueryerrors"),
    Source("perfquery", counters.read_perfquery, "perfquery -x"),
    Source("smpquery", smp.read, "smpquery"),
    Source("saquery", sa.read, "saquery"),
    Source("sminfo", sa.read_sminfo, "sminfo"),
    Source("dump_fts", routes.read, "dump_fts"),
    Source("dump_lfts", routes.read, "dump_lfts"),
    Source("ibroute", routes.read, "ibroute"),
)
BY_NAME: Mapping[str, Source] = {source.name: source for source in SOURCES}


def source_of(file: str) -> Source | None:
    """The source of a file of this name, the longest that fits; None where there is none."""
    fitting = [source for source in SOURCES if file.startswith(source.name)]
    return max(fitting, key=lambda source: len(source.name), default=None)
