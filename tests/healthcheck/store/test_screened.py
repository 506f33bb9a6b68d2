"""What the store keeps of screenings: which nodes, when, and how many node-hours they took."""

from __future__ import annotations

import json

from healthcheck.store import screened
from healthcheck.store.file import Store
from healthcheck.store.leases import begin
from healthcheck.store.screened import Screened, node_hours


def test_of_each_node_the_newest_screening_is_kept(store: Store) -> None:
    assert screened.newest(store) == {}
    screened.write(store, "one", 1000.0, {"n1": True, "n2": True})
    screened.write(store, "two", 2000.0, {"n2": False})
    assert screened.newest(store) == {"n1": Screened("one", 1000.0, True),
                                      "n2": Screened("two", 2000.0, False)}


def test_node_hours_are_those_of_leases_of_screenings_within_the_time(store: Store) -> None:
    for why, nodes, began, until, ended in ((screened.WHY, ["n1", "n2"], 0.0, 3600.0, 1800.0),
                                            (screened.WHY, ["n1"], 7200.0, 10800.0, None),
                                            ("muster burnin run", ["n3"], 0.0, 3600.0, 3600.0)):
        entry, _ = begin(store, "reservation", "slurm", nodes, why, "me", json.dumps({}), began, until)
        assert entry is not None
        with store.writing() as db:
            db.execute("UPDATE lease SET ended = ? WHERE id = ?",
                       (ended if ended is not None else until, entry.id))
            if ended is None:
                db.execute("UPDATE lease SET ended = NULL WHERE id = ?", (entry.id,))
    assert node_hours(store, 0.0, 100_000.0) == 2.0
    assert node_hours(store, 0.0, 9000.0) == 1.5        # half of the second one
    assert node_hours(store, 900.0, 9000.0) == 1.0      # and half of the first one
    assert node_hours(store, 20_000.0, 100_000.0) == 0.0
