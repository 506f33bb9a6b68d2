"""What muster must say of reboots that nobody meant, by their names alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only

EXPECTED: Mapping[str, Expected] = {
    "rebooted-by-itself": only(
        "host-rebooted", "node", "rebooted since the snapshot at|up since", "journalctl -b -1|BMC|lifecycle NODE maintenance", "warning"),
}
