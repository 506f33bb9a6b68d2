"""Joins what the kernel's buffer holds now to what earlier looks of the same boot saw of it, so that what was overwritten is still known.

The buffer of a node that is up for weeks has long lost its boot; each look that is kept carries the records of the ones before it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from healthcheck.facts.kernel import KMSG, LOG
from healthcheck.recording import Capture, FileCapture, Outcome, Recording

MOST = 4 << 20          # characters of earlier records that are kept; of more the oldest stay, which are the boot's
_NUMBER = re.compile(r"^\d{1,6},(\d{1,20}),", re.MULTILINE)


def whole_boot(now: Recording, before: Recording | None) -> Recording:
    """The look, its kernel log begun as far back as the look before it, or the ones before that, saw; as it is where they add nothing."""
    if before is None or now.host is None or before.host is None or not now.host.boot_id or now.host.boot_id != before.host.boot_id:
        return now
    capture, text, earlier = now.captures.get(LOG.id), _text(now), _text(before)
    if capture is None or text is None or earlier is None:
        return now
    first = _NUMBER.search(text)
    oldest = _NUMBER.search(earlier)
    if first is None or oldest is None or int(oldest[1]) >= int(first[1]):
        return now
    kept, newest = _before(earlier, int(first[1]))
    lost = int(first[1]) - newest - 1
    said = f"records {newest + 1} to {int(first[1]) - 1} of this boot were lost between two looks" if lost > 0 else ""
    joined = replace(capture, files={**capture.files, KMSG: replace(capture.files[KMSG], text=kept + text)},
                     note="; ".join(filter(None, (capture.note, _earlier_notes(before), said))))
    return replace(now, captures={**now.captures, LOG.id: joined})


def _text(recording: Recording) -> str | None:
    capture: Capture | None = recording.captures.get(LOG.id)
    entry: FileCapture | None = capture.files.get(KMSG) if capture is not None else None
    return entry.text if entry is not None and entry.outcome in (Outcome.DONE, Outcome.TRUNCATED) else None


def _before(text: str, number: int) -> tuple[str, int]:
    """The records before that number, as many as are kept, and the number of the last of them."""
    end, newest = 0, -1
    for match in _NUMBER.finditer(text):
        if int(match[1]) >= number or match.start() > MOST:
            end = match.start()
            break
        newest = int(match[1])
    else:
        end = len(text)
    kept = text[:end]
    return kept if kept.endswith("\n") else f"{kept}\n", newest


def _earlier_notes(before: Recording) -> str:
    """What was lost before that already; once, however many looks ago."""
    capture = before.captures.get(LOG.id)
    return capture.note if capture is not None and "between two looks" in capture.note else ""
