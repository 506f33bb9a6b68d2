"""The self-tests that disks remember, as smartctl prints them in JSON.

Names of members: smartmontools, ataprint.cpp (ata_smart_self_test_log), nvmeprint.cpp (nvme_self_test_log)
and scsiprint.cpp (scsi_self_test_N); what the numbers of results mean: NVM Express Base Specification, Device
Self-test log; SCSI Primary Commands, Self-Test Results log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from healthcheck.facts.parsing import member, natural
from healthcheck.facts.values import UNSUPPORTED

# A fatal error, or segments that failed. 0 is a pass; what was aborted, or goes on, is neither.
_NVME_FAILED, _SCSI_FAILED = (5, 6, 7), (3, 4, 5, 6, 7)
_MOST = 21        # entries of ATA's log; the others have 20
_SCSI = re.compile(r"scsi_self_test_[0-9]{1,2}")


def newest(document: dict[str, Any]) -> Any:
    """How the newest self-test failed that came to an end, "" where it passed; UNSUPPORTED where none did."""
    for failed, text in _tests(document):
        if failed is not None:
            return text[:100] if failed else ""
    return UNSUPPORTED


def _tests(document: dict[str, Any]) -> Iterator[tuple[bool | None, str]]:
    """The self-tests of a disk's log, newest first: whether each failed (None: no end), and in words."""
    names = [name for name in document if "self_test" in name]
    if not names:       # mostly
        return
    ata = _table(document, "ata_smart_self_test_log", "extended") or _table(
        document, "ata_smart_self_test_log", "standard")
    for row in ata:
        passed = member(row, "status", "passed")
        yield not passed if isinstance(passed, bool) else None, _words(row, "status")
    for row in _table(document, "nvme_self_test_log"):
        yield (_ended(member(row, "self_test_result", "value"), _NVME_FAILED),
               _words(row, "self_test_result"))
    for name in sorted(filter(_SCSI.fullmatch, names), key=natural)[:_MOST]:
        yield (_ended(member(document[name], "result", "value"), _SCSI_FAILED),
               _words(document[name], "result"))


def _ended(value: Any, failures: Sequence[int]) -> bool | None:
    return value in failures if type(value) is int and (value == 0 or value in failures) else None


def _words(row: Any, result: str) -> str:
    said = member(row, result, "string")
    hours = next((found for found in (member(row, "lifetime_hours"), member(row, "power_on_hours"),
                                      member(row, "power_on_time", "hours")) if type(found) is int), None)
    at = f", after {hours} h of operation" if hours is not None else ""
    return f"{said if isinstance(said, str) else 'failed'}{at}"


def _table(document: Any, *names: str) -> Sequence[Any]:
    found = member(document, *names, "table")
    return found[:_MOST] if isinstance(found, list) else ()
