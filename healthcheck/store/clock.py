"""Times that the head's clock got wrong: what is stored as later than now is no newest state, and no node's
doing."""

from __future__ import annotations

from healthcheck.store.file import Store
from inventory.times import minute

# Clocks of one site are not further apart; what is stored as later than that was stored by a wrong clock.
AHEAD_S = 300.0
# Muster is younger than 2020: a sweep of before was made by a clock that no one has set (1970, 2000).
UNSET_S = 1_577_836_800.0


def in_future(at: float, now: float) -> bool:
    """Whether a stored time is none that a right clock can have written by now."""
    return at > now + AHEAD_S


def newest_sweep(store: Store, now: float) -> float | None:
    """When the newest stored sweep began that is not of the future; None without one."""
    found: float | None = store.rows("SELECT max(started) FROM sweep WHERE started <= ?", now + AHEAD_S)[0][0]
    return found


def head_clock(store: Store, now: float) -> str:
    """What is to be said, once and of the head, where the newest sweeps are dated later than now; empty where
    they are not, or one by a right clock came after them."""
    limit = now + AHEAD_S
    number, latest = store.rows(
        "SELECT count(*), max(started) FROM sweep WHERE started > ? AND id > "
        "(SELECT coalesce(max(id), 0) FROM sweep WHERE started <= ?)", limit, limit)[0]
    if not number:
        return ""
    many = "a stored sweep is" if number == 1 else f"{number} stored sweeps are"
    when = minute(latest)
    return (f"{many} dated later than now, up to {when}: this head's clock was ahead then, or is behind now "
            "(see: timedatectl); no state counts by them, and muster check --store puts them right")
