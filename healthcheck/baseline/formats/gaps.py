"""What a log of any format may lack and still be ordinary; each is a caveat of the parsed log."""

from __future__ import annotations

START_MISSING = "the start of this boot is missing"
WALL_CLOCK = "its times are of a wall clock, and the start of the boot is not known"
NO_TIMES = "it gives no times"
LAST_LINE_OPEN = "the last line has no end, and may be cut"

ORDINARY_GAPS = frozenset((START_MISSING, WALL_CLOCK, NO_TIMES, LAST_LINE_OPEN))
