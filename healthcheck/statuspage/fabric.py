"""The fabric as `muster fabric map --store` kept it, for the page: switches by rack, their links by state."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from healthcheck.subnet.linkstates import SHOWN_STATES
from healthcheck.subnet.mapdocument import FILE, SCHEMA
from inventory.nodeset import natural
from inventory.text import clean

_LARGEST = 64 << 20
_MOST_SWITCHES, _MOST_LINKS = 400, 6
_STATES = tuple(state.value for state in SHOWN_STATES)
_GOOD = ("as planned", "planned")


def newest(state: Path) -> dict[str, Any] | None:
    """The fabric that was stored last; None where there is none. `trouble` says why it is not shown."""
    path = state / FILE
    try:
        made, size = path.stat().st_mtime, path.stat().st_size
        if size > _LARGEST:
            return {"made": made, "trouble": f"its document has {size >> 20} MB, too many for this page"}
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            return {"made": made, "trouble": f"{FILE} is no {SCHEMA}"}
        return {"made": made, "trouble": "", **_shown(found)}
    except FileNotFoundError:
        return None
    except OSError as error:
        return {"made": 0, "trouble": clean(f"{FILE}: {error.strerror}", 200)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {"made": 0, "trouble": f"{FILE} cannot be read"}


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    """Racks with their switches, those with something wrong first in both; `more` switches are left out."""
    devices = {one["name"]: one for one in found["devices"]}
    links: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for link in found["links"]:
        if link["state"] not in _STATES:
            raise ValueError("no state of a link")
        for end in ("a", "b"):
            if devices[link[end]]["tier"] != "host":
                links[link[end]].append(link)
    switches = [_switch(devices[name], links[name]) for name in links]
    sick = {one["rack"] for one in switches if one["wrong"]}
    switches.sort(
        key=lambda one: (
            one["rack"] not in sick,
            natural(one["rack"]),
            not one["wrong"],
            natural(one["name"]),
        )
    )
    racks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in switches[:_MOST_SWITCHES]:
        racks[one["rack"]].append(one)
    counts = Counter(link["state"] for link in found["links"])
    return {
        "counts": [[state, counts[state]] for state in _STATES if counts[state]],
        "racks": [{"name": name, "switches": racks[name]} for name in racks],
        "more": max(0, len(switches) - _MOST_SWITCHES),
    }


def _switch(device: dict[str, Any], links: list[dict[str, Any]]) -> dict[str, Any]:
    counts = Counter(link["state"] for link in links)
    odd = [
        clean(f"{link['a']} {link['a_port']} to {link['b']} {link['b_port']}: {link['state']}", 300)
        for state in _STATES
        if state not in _GOOD
        for link in links
        if link["state"] == state
    ]
    return {
        "name": clean(device["name"], 127),
        "tier": clean(device["tier"], 10),
        "rack": clean(device["rack"] or "", 127),
        "wrong": bool(odd),
        "counts": [[state, counts[state]] for state in _STATES if counts[state]],
        "odd": odd[:_MOST_LINKS],
        "more": max(0, len(odd) - _MOST_LINKS),
    }
