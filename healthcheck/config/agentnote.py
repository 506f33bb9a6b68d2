"""Reads what this node's agent noted of places that it could not write (`healthcheck.model.agentfault`).
Python 3.8."""

from __future__ import annotations

from healthcheck.model.agentfault import MOST, decode


def read(path: str | None) -> dict[str, str]:
    """Why each place could not be written, by place; empty where there is no note, or it cannot be read."""
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            return decode(file.read(MOST))
    except OSError:
        return {}
