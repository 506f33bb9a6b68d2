"""Which GPUs answer the driver, from what NVML or nvidia-smi gives of all of them.

A dead GPU is not always called lost. Operators also see 'Unknown Error' (NVML 999) in place of its handle
(dcgm-exporter issue 604, open-gpu-kernel-modules issues 259 and 387: also 'Not Found'), and ERR!, 'Unknown
Error' or '[GPU requires reset]' in place of what has to be read from the board, while name, UUID and memory
size are still there, because the driver remembers them. So a GPU is judged among its equals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.facts.nvml_output import DRIVER, OUR_OWN, Line, error_of, handle_error
from healthcheck.facts.values import Unmeasured

# NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED and NVML_ERROR_GPU_NOT_FOUND (nvml.h): the driver itself
# says that this GPU does not answer.
LOST_CODES = (15, 16, 28)
# What the driver cannot answer from memory.
_LIVE = frozenset((
    "temperature_c", "power_mw", "utilization_percent", "clock_sm_mhz", "clock_memory_mhz", "clock_reasons",
    "ecc_uncorrected", "ecc_corrected",
))
_FEWEST = 2     # failed readings: a single one may be a defect of that call
_NO_READING = frozenset(("index", "error", "p2p"))      # p2p has an answer per pair
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GpuAnswer:
    """Whether a GPU answers: True, False with the driver's words in `trouble`, or Unmeasured."""

    answers: bool | Unmeasured
    trouble: str = ""


_ANSWERS = GpuAnswer(True)


@dataclass(frozen=True)
class _Readings:
    """A GPU's readings by their keys: those that succeeded, that the GPU refused, and that it does not have.
    `errors` are the GPU's own, that of its handle first; `own`: an error of ours in place of the handle."""

    good: frozenset[str] = _NOTHING
    failed: frozenset[str] = _NOTHING
    lacking: frozenset[str] = _NOTHING
    errors: tuple[tuple[int, str], ...] = ()
    own: bool = False

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


def answers(lines: Sequence[Line], sources: Sequence[str] | None = None) -> list[GpuAnswer]:
    """For each line of a GPU whether that GPU answers; `sources` name who gave each line, by default NVML.

    It does not where the driver calls it lost; and, where another GPU answers, where there is no handle of
    it, or where most of the readings fail that others give, all or only live ones. Errors of our own
    (`OUR_OWN`) accuse no GPU, nor do readings that it does not support, unless it supports none at all.
    """
    read = list(map(_readings, lines))
    sound = [of.lost is None and bool(of.good) and not _most_fail(of.good, of.failed) for of in read]
    if all(sound):
        return [_ANSWERS] * len(read)
    given = frozenset(key for of, answering in zip(read, sound, strict=True) if answering for key in of.good)
    named = sources or ("NVML",) * len(read)
    return [_ANSWERS if answering else _answer(line, of, given, source)
            for line, of, answering, source in zip(lines, read, sound, named, strict=True)]


def none_answers(lines: Sequence[Line]) -> str:
    """The driver's words where not one of these GPUs answers; empty where one does, where there is none,
    where an error of our own may be why, and where the only one is lost, which is its own fault."""
    read: list[_Readings] = []
    for line in lines:
        read.append(_readings(line))
        if read[-1].good:
            return ""
    if not read or (len(read) == 1 and read[0].lost is not None):
        return ""
    return read[0].words if all(of.errors for of in read) else ""


def _answer(line: Line, of: _Readings, given: frozenset[str], source: str) -> GpuAnswer:
    if of.lost is not None:
        return GpuAnswer(False, f"{of.lost[1]} (NVML {of.lost[0]})")
    if of.own and (ours := handle_error(line, source)) is not None:
        return GpuAnswer(ours)
    no_handle = bool(of.errors) and not of.failed
    if given and (no_handle or _most_fail(of.good & given, of.failed & given)):
        return GpuAnswer(False, f"GPU does not answer: {of.words}")
    if given and not of.good and not of.failed and len(of.lacking & given) >= _FEWEST:
        return GpuAnswer(False, "GPU does not answer: it has none of the readings that other GPUs have")
    if of.good and given:
        return _ANSWERS
    if of.errors and not given:
        return GpuAnswer(Unmeasured(
            f"{source}: {of.words}, and no other GPU of this node answers, so it may be the driver's fault "
            "(driver-loads)", asked=(DRIVER,)))
    return GpuAnswer(Unmeasured(f"{source}: none of its readings could be read"))


def _most_fail(good: frozenset[str], failed: frozenset[str]) -> bool:
    live = len(failed & _LIVE)
    return _FEWEST <= len(failed) > len(good) or _FEWEST <= live > len(good & _LIVE)


def _readings(line: Line) -> _Readings:
    handle = error_of(line)
    if handle is not None and handle[0] in OUR_OWN:
        return _Readings(own=True)
    if handle is not None:
        return _Readings(errors=(handle,))
    read = {key: value for key, value in line.items() if type(value) is dict and key not in _NO_READING}
    good = frozenset([key for key, value in read.items() if "ok" in value])
    if len(good) == len(read):
        return _Readings(good)
    lacking, errors = set(), dict[str, tuple[int, str]]()
    for key, value in read.items():
        if key in good:
            continue
        if value.get("na") is True:
            lacking.add(key)
        elif (error := error_of(value)) is not None and error[0] not in OUR_OWN:
            errors[key] = error
    return _Readings(good, frozenset(errors), frozenset(lacking), tuple(errors.values()))
