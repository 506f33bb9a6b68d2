"""How a bring-up stands, as one JSON document (muster.bringup/1); times are epoch seconds. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Any

from healthcheck.store.bringupnotes import QUEUED, TROUBLE, WAITING
from provisioning.bringup.standing import STANDS, Spot, Standing


def document(standing: Standing) -> dict[str, Any]:
    """All machines, whatever is to be told of them, and how many are in each step."""
    return {
        "schema": "muster.bringup/1", "time": dt.datetime.fromtimestamp(standing.now, dt.timezone.utc).isoformat(timespec="seconds"),
        "running": standing.running, "machines_by_stand": {stand: standing.number(stand) for stand in STANDS},
        "steps": [{"step": one.step, "through": one.through, "skipped": one.skipped,
                   "here": {stand: one.here.get(stand, 0) for stand in (QUEUED, WAITING, TROUBLE)},
                   "oldest": {"node": one.oldest.node, "since": one.oldest.since} if one.oldest is not None else None}
                  for one in standing.counts],
        "machines": [_machine(spot) for spot in standing.spots],
    }


def _machine(spot: Spot) -> dict[str, Any]:
    return {
        "node": spot.node, "step": spot.step, "stand": spot.stand, "since": spot.since, "said": spot.said,
        "owner": spot.owner.value if spot.owner is not None else None, "hand": spot.hand, "began": spot.began, "who": spot.who,
        "looked": spot.looked, "again": spot.again, "ended": spot.ended, "serial": spot.serial,
        "troubles": [{"step": one.step, "since": one.since, **vars(one.trouble), "owner": one.trouble.owner.value}
                     for one in spot.troubles],
        "skipped": [vars(one) for one in spot.skipped],
    }
