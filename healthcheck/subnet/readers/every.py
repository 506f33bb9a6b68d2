"""Which reader reads what: by the beginning of a source's name, that of its file in a folder of saved outputs
("perfquery-leaf01.txt"). The order is that of merging: what knows more of a thing comes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from healthcheck.subnet.readers import counters, dbcsv, linkinfo, ports, routes, sa, smp, topology, ufm
from healthcheck.subnet.readers.building import SubnetReading


class FabricSource(NamedTuple):
    """A source of readings: how its file's name begins, its reader, and the command that prints it."""

    name: str
    read: Callable[[str, bool], SubnetReading]
    command: str


SOURCES = (
    FabricSource("ibdiagnet2.db_csv", dbcsv.read, "ibdiagnet"),
    FabricSource("iblinkinfo", linkinfo.read, "iblinkinfo --line"),
    FabricSource("ibnetdiscover-p", ports.read, "ibnetdiscover -p"),
    FabricSource("ibnetdiscover", topology.read, "ibnetdiscover"),
    FabricSource("ibqueryerrors", counters.read_errors, "ibqueryerrors"),
    FabricSource("perfquery", counters.read_perfquery, "perfquery -x"),
    FabricSource("smpquery", smp.read, "smpquery"),
    FabricSource("saquery", sa.read, "saquery"),
    FabricSource("sminfo", sa.read_sminfo, "sminfo"),
    FabricSource("dump_fts", routes.read, "dump_fts"),
    FabricSource("dump_lfts", routes.read, "dump_lfts"),
    FabricSource("saquery-lftr", routes.read_records, "saquery LFTR"),
    FabricSource("ibroute", routes.read, "ibroute"),
    FabricSource("ufm-ports", ufm.read_ports, "GET /ufmRest/resources/ports"),
    FabricSource("ufm-systems", ufm.read_systems, "GET /ufmRest/resources/systems"),
    FabricSource("ufm-links", ufm.read_links, "GET /ufmRest/resources/links"),
    FabricSource("ufm-unhealthy", ufm.read_unhealthy, "GET /ufmRest/app/unhealthy_ports"),
)
BY_NAME: Mapping[str, FabricSource] = {source.name: source for source in SOURCES}


def source_of(file: str) -> FabricSource | None:
    """The source of a file of this name, the longest that fits; None where there is none."""
    fitting = [source for source in SOURCES if file.startswith(source.name)]
    return max(fitting, key=lambda source: len(source.name), default=None)
