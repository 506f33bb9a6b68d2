"""In how many snapshots in a row the NVIDIA driver, or one GPU of it, gave no answer. The sweep passes it in;
no machine is read for it.

A snapshot in which one of them gave no answer has one more capture in the state folder, UNANSWERED_CAPTURE,
with these numbers for its boot. So checks distinguish a driver that hangs from one that was slow once, and a
saved sweep holds what its replay needs. A snapshot that cannot tell (it asked no GPU, or its own time was
over) changes no number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from healthcheck.facts import smi
from healthcheck.facts.base import Captures, why
from healthcheck.facts.gpu import NVML, gpus
from healthcheck.facts.limits import SMI_GPUS
from healthcheck.facts.values import Fact, Unmeasured, Unread, parted, reading
from healthcheck.model.recording import Capture, Outcome, Recording

UNANSWERED = "unanswered"
UNANSWERED_CAPTURE = "muster.unanswered"
DRIVER = "driver"
# What the collector writes where a limit of its own passed (`onnode.nvidia`).
_HUNG = re.compile(r"(?:NVML: )?(?:no answer within |wedged since )")
_MOST = 1_000_000


class HungPart(NamedTuple):
    """What gave no answer ("driver", "GPU 5"), why, and in how many snapshots in a row, this one included."""

    subject: str
    reason: str
    snapshots: int


class Unanswered(Fact):
    """Everything of the NVIDIA driver that gave no answer in this snapshot. `unasked` says why GPUs were not
    asked in it, empty where all were."""

    name: str
    hung: tuple[HungPart, ...]
    unasked: str


class _Heard(NamedTuple):
    """What a snapshot shows: who gave no answer and why, whose earlier numbers stay as they are (None: all),
    and why GPUs were not asked."""

    silent: Mapping[str, str]
    kept: frozenset[str] | None = frozenset()
    unasked: str = ""


def unanswered(recording: Recording, previous: Recording | None) -> Unanswered:
    """The fact for a reached node. `previous` is the newest snapshot before this one, of any boot."""
    heard = _heard(recording)
    numbers = _numbers(heard, recording, previous)
    return Unanswered(DRIVER, tuple([HungPart(subject, reason, numbers[subject])
                                     for subject, reason in heard.silent.items()]), heard.unasked)


def unanswered_capture(recording: Recording, previous: Recording | None) -> Capture | None:
    """The capture that is stored with this snapshot; None where there is nothing to count."""
    numbers = _numbers(_heard(recording), recording, previous)
    if not numbers:
        return None
    text = json.dumps(numbers, separators=(",", ":"))
    return Capture(Outcome.DONE, bytes=len(text), text=text)


def _numbers(heard: _Heard, recording: Recording, previous: Recording | None) -> dict[str, int]:
    before: Mapping[str, int] = {}
    if (previous is not None and previous.host is not None and recording.host is not None
            and previous.host.boot_id == recording.host.boot_id != ""):
        before = _read(previous.captures.get(UNANSWERED_CAPTURE))
    kept = {subject: number for subject, number in before.items()
            if heard.kept is None or subject in heard.kept}
    return {**kept, **{subject: before.get(subject, 0) + 1 for subject in heard.silent}}


def _heard(recording: Recording) -> _Heard:
    capture = recording.captures.get(NVML.id)
    if capture is None or recording.host is None:
        return _Heard({}, None)
    if capture.outcome is Outcome.DONE and '"error": [-1,' not in capture.text:
        return _Heard({})
    captures = Captures(recording)
    if capture.outcome in (Outcome.TIMEOUT, Outcome.WEDGED) and "\n" not in capture.text:
        if capture.outcome is Outcome.TIMEOUT and not _HUNG.match(capture.note):
            return _Heard({}, None)
        if _smi_answers(captures):
            return _Heard({})
        return _Heard({DRIVER: why(NVML, capture)}, None)
    if capture.outcome in (Outcome.DONE, Outcome.TIMEOUT, Outcome.TRUNCATED):
        return _gpus_heard(captures)
    return _Heard({}, None)


def _gpus_heard(captures: Captures) -> _Heard:
    try:
        found, unasked = parted(captures.once(gpus))
    except (Unread, ValueError, RecursionError):
        return _Heard({}, None)
    silent, heard = {}, set()
    for gpu in found:
        answers = reading(gpu, "answers")
        if not isinstance(answers, Unmeasured):
            heard.add(gpu.name)
        elif _HUNG.match(answers.reason):
            silent[gpu.name] = answers.reason
        else:
            unasked = unasked or f"{gpu.name}: {answers.reason}"
    kept = frozenset(f"GPU {index}" for index in range(SMI_GPUS)) - heard
    return _Heard(silent, kept if unasked else frozenset(), unasked)


def _smi_answers(captures: Captures) -> bool:
    """Whether nvidia-smi gave readings, or the driver's refusal."""
    if smi.trouble(captures) is not None:
        return True
    try:
        return bool(captures.once(smi.log).gpus)
    except (Unread, ValueError, RecursionError):
        return False


def _read(capture: Capture | None) -> dict[str, int]:
    """The numbers; none from another version's capture or a damaged one."""
    try:
        document: Any = json.loads(capture.text) if capture is not None else {}
        return {subject[:20]: number for subject, number in document.items()
                if type(number) is int and 0 < number < _MOST}
    except (ValueError, AttributeError, RecursionError):
        return {}
