"""What UFM knows of a fabric: its REST interface's answers, as the files that `fabricoutput.saved` reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from healthcheck.subnet.readers.ufmevents import MOST_EVENTS_TEXT
from healthcheck.sweep.fabricoutput import FabricOutput, ToolOutput
from healthcheck.sweep.ufmrest import UfmRest
from healthcheck.sweep.ufmwire import UfmError

EVENTS = "ufm-events.json"
# By the name of its file: the path, and the query. `show_disabled`: as NVIDIA's own script asks for ports
# that are disabled (Mellanox/ufm_sdk_3.0, scripts/ufm_ports).
_PORTS = "ufm-ports.json"
RESOURCES = {
    _PORTS: ("/resources/ports", "show_disabled=true"),
    "ufm-links.json": ("/resources/links", ""),
    "ufm-systems.json": ("/resources/systems", "type=switch"),
    "ufm-unhealthy.json": ("/app/unhealthy_ports", ""),
}


def ask(ufms: Sequence[UfmRest], clock: Callable[[], float] = time.time) -> tuple[FabricOutput, ...]:
    """What each UFM knows of its subnet; several are named by their addresses. Raises UfmError where one
    gives no ports; what else it does not give is missing."""
    return tuple(_one(ufm, "" if len(ufms) == 1 else name_of(ufm), clock) for ufm in ufms)


def name_of(ufm: UfmRest) -> str:
    """The name of its subnet where there are several: a folder's name, too."""
    return f"{ufm.place.host.replace(':', '-')}-{ufm.place.port}"


def _one(ufm: UfmRest, name: str, clock: Callable[[], float]) -> FabricOutput:
    deadline = ufm.deadline()
    outputs: dict[str, ToolOutput] = {}
    missing: list[str] = []
    at = clock()        # what is seen is this old at most
    for file, (path, query) in RESOURCES.items():
        try:
            outputs[file] = ToolOutput(ufm.rows(path, deadline, query))
        except UfmError as error:
            if file == _PORTS or error.status == 401:
                raise
            missing.append(str(error))
    return FabricOutput(name, outputs, at, tuple(missing))


def events(ufm: UfmRest) -> ToolOutput:
    """Its event log, as JSON. Raises UfmError."""
    text = ufm.rows("/app/events", ufm.deadline())
    return ToolOutput(text[:MOST_EVENTS_TEXT], len(text) > MOST_EVENTS_TEXT)
