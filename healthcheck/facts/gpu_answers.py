"""Which GPUs answer the driver, from what NVML or nvidia-smi gives of all of them.

A dead GPU is not always called lost. Operators also see 'Unknown Error' (NVML 999) in place of its handle
(dcgm-exporter issue 604, open-gpu-kernel-modules issues 259 and 387: also 'Not Found'), and ERR!, 'Unknown
Error' or '[GPU requires reset]' in place of what has to be read from the board, while name, UUID and memory
size are still there, because the driver remembers them. So a GPU is judged among its equals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

from healthcheck.facts.nvml_output import DRIVER, OUR_OWN, Line, error_of, handle_error
from healthcheck.facts.values import UNSUPPORTED, Unmeasured

# NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED and NVML_ERROR_GPU_NOT_FOUND (nvml.h): the driver itself
# says that this GPU does not answer.
LOST_CODES = (15, 16, 28)
# What the driver cannot answer from memory.
_LIVE = frozenset((
    "temperature_c", "power_mw", "utilization_percent", "clock_sm_mhz", "clock_memory_mhz", "clock_reasons",
    "ecc_uncorrected", "ecc_corrected",
))
_FEWEST = 2     # failed readings: a single one may be a defect of that call
_NO_READING = ("index", "error", "p2p")     # p2p has an answer per pair


@dataclass(frozen=True)
class GpuAnswer:
    """Whether a GPU answers: True, False with the driver's words in `trouble`, or Unmeasured."""

    answers: bool | Unmeasured
    trouble: str = ""


_ANSWERS = GpuAnswer(True)


class GpuReadings(NamedTuple):
    """A GPU's readings by their keys. `held` are the values of those that succeeded, UNSUPPORTED for those
    that it does not have; `failed` are the errors of those that it refused. `handle`: the error in place of
    its handle, without which there are no readings."""

    held: Mapping[str, Any]
    failed: Mapping[str, tuple[int, str]]
    handle: tuple[int, str] | None = None

    @property
    def any_good(self) -> bool:
        """Whether one of them succeeded."""
        return any(value is not UNSUPPORTED for value in self.held.values())

    @property
    def good(self) -> frozenset[str]:
        """Those that succeeded."""
        return frozenset([key for key, value in self.held.items() if value is not UNSUPPORTED])

    @property
    def own(self) -> bool:
        """Whether an error of ours is in place of the handle."""
        return self.handle is not None and self.handle[0] in OUR_OWN

    @property
    def errors(self) -> tuple[tuple[int, str], ...]:
        """The GPU's own errors."""
        if self.handle is None:
            return tuple(self.failed.values())
        return () if self.own else (self.handle,)

    @property
    def sound(self) -> bool:
        """Whether it answers, by its own readings alone."""
        return self.any_good and (not self.failed or (
            self.lost is None and not _most_fail(self.good, self.failed.keys())))

    @property
    def lost(self) -> tuple[int, str] | None:
        """The error by which the driver calls it lost."""
        return next((error for error in self.errors if error[0] in LOST_CODES), None)

    @property
    def words(self) -> str:
        """The commonest of its errors."""
        counted = Counter(self.errors)
        code, words = max(counted, key=counted.__getitem__)
        return f"{words} (NVML {code})"


def answers(lines: Sequence[Line], sources: Sequence[str] | None = None,
            readings: Sequence[GpuReadings] | None = None) -> list[GpuAnswer]:
    """For each line of a GPU whether that GPU answers; `sources` name who gave each line, by default NVML.
    `readings` are the lines' where the caller has them.

    It does not where the driver calls it lost; and, where another GPU answers, where there is no handle of
    it, or where most of the readings fail that others give, all or only live ones. Errors of our own
    (`OUR_OWN`) accuse no GPU, nor do readings that it does not support, unless it supports none at all.
    """
    read = readings or list(map(readings_of, lines))
    sound = [of.sound for of in read]
    if all(sound):
        return [_ANSWERS] * len(read)
    given = frozenset(key for of, answering in zip(read, sound, strict=True) if answering for key in of.good)
    named = sources or ("NVML",) * len(read)
    return [_ANSWERS if answering else _answer(line, of, given, source)
            for line, of, answering, source in zip(lines, read, sound, named, strict=True)]


def none_answers(lines: Sequence[Line]) -> str:
    """The driver's words where not one of these GPUs answers; empty where one does, where there is none,
    where an error of our own may be why, and where the only one is lost, which is its own fault."""
    read: list[GpuReadings] = []
    for line in lines:
        read.append(readings_of(line))
        if read[-1].any_good:
            return ""
    if not read or (len(read) == 1 and read[0].lost is not None):
        return ""
    return read[0].words if all(of.errors for of in read) else ""


def _answer(line: Line, of: GpuReadings, given: frozenset[str], source: str) -> GpuAnswer:
    good = of.good
    if of.lost is not None:
        return GpuAnswer(False, f"{of.lost[1]} (NVML {of.lost[0]})")
    if of.own and (ours := handle_error(line, source)) is not None:
        return GpuAnswer(ours)
    no_handle = bool(of.errors) and not of.failed
    if given and (no_handle or _most_fail(good & given, of.failed.keys() & given)):
        return GpuAnswer(False, f"GPU does not answer: {of.words}")
    if given and not good and not of.failed and len(of.held.keys() & given) >= _FEWEST:
        return GpuAnswer(False, "GPU does not answer: it has none of the readings that other GPUs have")
    if good and given:
        return _ANSWERS
    if of.errors and not given:
        return GpuAnswer(Unmeasured(
            f"{source}: {of.words}, and no other GPU of this node answers, so it may be the driver's fault "
            "(driver-loads)", asked=(DRIVER,)))
    return GpuAnswer(Unmeasured(f"{source}: none of its readings could be read"))


def _most_fail(good: AbstractSet[str], failed: AbstractSet[str]) -> bool:
    live = len(failed & _LIVE)
    return _FEWEST <= len(failed) > len(good) or _FEWEST <= live > len(good & _LIVE)


def readings_of(line: Line) -> GpuReadings:
    """The readings of a GPU's line, without those that are in another format than the reader's, or failed by
    an error of our own."""
    held: dict[str, Any] = {}
    failed: dict[str, tuple[int, str]] = {}
    handle = error_of(line)
    if handle is not None:
        return GpuReadings(held, failed, handle)
    for key, value in line.items():
        if type(value) is not dict:
            continue
        if "ok" in value:
            held[key] = value["ok"]
        elif value.get("na") is True:
            held[key] = UNSUPPORTED
        elif (error := error_of(value)) is not None and error[0] not in OUR_OWN:
            failed[key] = error
    for key in _NO_READING:
        held.pop(key, None)
        failed.pop(key, None)
    return GpuReadings(held, failed)
