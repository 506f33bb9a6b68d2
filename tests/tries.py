"""How many examples a property is tested with: a fifth in the fast tier, of which each run draws others, and
all in the slow tier."""

from __future__ import annotations

import os

# scripts/test --slow sets it, and runs each property again.
WHOLE = os.environ.get("MUSTER_TESTS_TRIES") == "all"
_FEWEST = 10


def tries(whole: int) -> int:
    """The number for this tier."""
    return whole if WHOLE else max(min(whole, _FEWEST), whole // 5)
