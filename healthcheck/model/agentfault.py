"""What an agent could not write on its node, as it notes that beside the run's other traces. Python 3.8.

The note lies in the run folder, which is in memory: it is there although the state disk is full, read-only or
gone. Each run replaces or removes it, and a boot ends it.
"""

from __future__ import annotations

import json

from healthcheck.model.places import STATE
from inventory.text import clean

NOTE = "/run/muster/agent-fault.json"
SCHEMA = "muster.agent-fault/1"
# Where an agent writes: its state folder, node_exporter's folder, the folder of the gate's snapshot.
STATE_FOLDER, TEXTFILE, GATE = PLACES = ("state", "textfile", "gate")
MOST = 16 << 10     # bytes of a note
_MOST_TEXT = 400    # characters of one place's text


def note_of(state: str) -> str | None:
    """Where the agent with this state folder keeps its note; None for a folder of someone's own choice."""
    return state[:-len(STATE)] + NOTE if state.endswith(STATE) else None


def encode(faults: dict[str, str], time: float) -> bytes:
    """The note: one line a place; `time` in seconds since 1970."""
    return json.dumps({"schema": SCHEMA, "time": time, **faults}).encode() + b"\n"


def decode(data: bytes) -> dict[str, str]:
    """Why each place could not be written, as one line fit for a terminal; empty for what is no note."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return known(found) if isinstance(found, dict) and found.get("schema") == SCHEMA else {}


def known(note: dict[str, object]) -> dict[str, str]:
    """The places of a note's document, whose other members may be anything."""
    return {place: clean(text, _MOST_TEXT) for place in PLACES
            if isinstance(text := note.get(place), str) and text}
