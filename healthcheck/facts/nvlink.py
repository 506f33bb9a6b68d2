"""NVLink facts: NVML's readings of each link, its errors, and which GPUs may reach each other's memory.

A GPU that was not read, or that has no such links or counters at all, is one subject ("GPU 5 NVLinks"), so
that it is reported once.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.divided import LINKS, PAIRS, is_divided
from healthcheck.facts.gpu import NVML, PCI, each
from healthcheck.facts.nvml_output import DRIVER, Line, asked, handle_error, index_of, reading
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, changed, first_unread, parted, partial_if
from healthcheck.facts.values import reading as value_of

_NO_REFERENCES = 2      # marshal's version in which equal values always give equal bytes
T = TypeVar("T")
OfLink = TypeVar("OfLink", bound=Fact)


class GpuLinks(Fact):
    """How many NVLinks a GPU ("GPU 3") has, how many are up, and the numbers of those that are not;
    UNSUPPORTED where NVML has no NVLink of it."""

    name: str
    index: int
    links: int
    active: int
    down: tuple[int, ...]


class NvLink(Fact):
    """One NVLink of one GPU ("GPU 3 NVLink 7"). Speed and remote end are valid only while it is `active`.

    `gigabytes_per_second` is one direction's (NVML's field 164, in MB/s, by 1000); `version` is NVML's number
    of the generation, not the generation; `remote_type` is gpu, npu, switch or unknown; `remote_pci` is as
    the kernel writes it.
    """

    name: str
    gpu: int
    link: int
    active: bool
    version: int
    gigabytes_per_second: float
    remote_type: str
    remote_pci: str


class NvLinkErrors(Fact):
    """The error counters of one NVLink up to its fourth generation, since the driver was loaded; Blackwell
    has `NvLink5Errors`."""

    IDENTITY = ("gpu", "link")

    name: str
    gpu: int
    link: int
    replay: int
    recovery: int
    crc_flit: int
    crc_data: int
    ecc_data: int


class NvLink5Errors(Fact):
    """The error counters of one NVLink of the fifth generation; UNSUPPORTED, one subject a GPU, on what is
    older.

    A bit error ratio is a share of all bits: 1.5e-254 stands for none. `effective` is after forward error
    correction (FEC), `raw` before it. NVML sorts what FEC met into 16 bins by how much it had to correct:
    `fec_corrected` is the sum of all but the first, `fec_worst` the highest with a count (0: nothing
    corrected).
    """

    IDENTITY = ("gpu", "link")

    name: str
    gpu: int
    link: int
    malformed_packets: int
    buffer_overruns: int
    rx_errors: int
    local_integrity_errors: int
    link_recovery_failed: int
    link_recovery_events: int
    effective_errors: int
    effective_ber: float
    symbol_errors: int
    symbol_ber: float
    raw_ber: float
    fec_corrected: int
    fec_worst: int


# In place of each status, on a node with a single GPU.
ALONE = "alone"


class GpuPair(Fact):
    """Whether one GPU may read, write and reach over NVLink the memory of another ("GPU 0 to GPU 3"); each
    order is a pair.

    Each is an nvmlGpuP2PStatus_t in lower case: ok, chipset_not_supported, gpu_not_supported,
    ioh_topology_not_supported, disabled_by_regkey, not_supported, unknown. A single GPU is one subject with
    ALONE in each, which is not the same as UNSUPPORTED.
    """

    name: str
    gpu: int
    peer: int
    read: str
    write: str
    nvlink: str


# The reader's row of a link: state, version, speed, kind and address of the remote end, and then counters, in
# this order, and the FEC bins up to the last one with a count.
# Both classes begin with name, GPU and link.
_COUNTERS, _ALL5 = (tuple(kind.FIELDS)[3:] for kind in (NvLinkErrors, NvLink5Errors))
_NEWER5 = ("raw_ber", "fec_corrected", "fec_worst")
_COUNTERS5 = tuple(name for name in _ALL5 if name not in _NEWER5)
_BER = ("effective_ber", "symbol_ber", "raw_ber")
_BEFORE = 5
_SHORT, _LONG = _BEFORE + len(_COUNTERS), _BEFORE + len(_COUNTERS) + len(_COUNTERS5)
# Readers before the bins sent neither them nor the raw ratio.
_LISTS, _LENGTHS = {list}, {_SHORT, _LONG, _LONG + 2}
_REMOTE = {0: "gpu", 1: "npu", 2: "switch"}
_P2P = (
    "ok", "chipset_not_supported", "gpu_not_supported", "ioh_topology_not_supported", "disabled_by_regkey",
    "not_supported", "unknown",
)


def _number(value: Any, *gpus: int) -> Any:
    """A number of a row; -N stands for the error N of NVML, which asked these GPUs."""
    if type(value) is not int:
        return Unmeasured("NVML: not in the reader's format")
    if value >= 0:
        return value
    return UNSUPPORTED if value == -3 else Unmeasured(f"NVML: error {-value}", asked=asked(-value, *gpus))


def _numbers(values: Iterable[Any], index: int) -> list[Any]:
    """Numbers of a row, which NVML read of this GPU."""
    return [value if type(value) is int and value >= 0 else _number(value, index) for value in values]


def _rows(line: Line) -> Any:
    """The rows of a GPU's links, UNSUPPORTED or Unmeasured."""
    rows = handle_error(line) or reading(line, "nvlinks", list)
    if type(rows) is list and not (_LISTS.issuperset(map(type, rows))
                                   and _LENGTHS.issuperset(map(len, rows))):
        return Unmeasured("NVML: nvlinks is not in the reader's format")
    return rows


def _by_gpu(captures: Captures, name: str, read: Sequence[str], make: Callable[[Line], T]) -> Any:
    """What `make` finds in the line of each GPU. It depends on the GPU's number and the readings `read`
    alone: GPUs with equal ones share it."""

    def of_gpu(line: Line) -> T:
        # Unlike a tuple of the values, it tells 1, 1.0 and True apart.
        content = marshal.dumps([line.get(key) for key in ("index", "error", *read)], _NO_REFERENCES)
        return captures.part(name, content, lambda: make(line))

    return each(captures, lambda lines: tuple(map(of_gpu, lines)))


class _OfGpu(NamedTuple):
    """What the rows of one GPU's links come to."""

    links: tuple[GpuLinks, ...]
    each: tuple[NvLink, ...]
    errors: tuple[NvLinkErrors, ...]
    errors5: tuple[NvLink5Errors, ...]


def _of_gpus(captures: Captures) -> Any:
    return _by_gpu(captures, "links of a GPU", ("nvlinks", "mig"), _of_gpu)


def _of_gpu(line: Line) -> _OfGpu:
    index, rows, divided = index_of(line), _rows(line), is_divided(line)
    return _OfGpu((_gpu_links(index, rows, divided=divided),), tuple(_links(index, rows, divided=divided)),
                  tuple(_errors(index, rows, NvLinkErrors, _COUNTERS, _BEFORE)),
                  tuple(_errors(index, rows, NvLink5Errors, _ALL5, _SHORT)))


def _chained(found: Any, of: Callable[[Any], Iterable[T]]) -> Any:
    """Of all GPUs, one after the other."""
    rows, lacking = parted(found)
    return partial_if(tuple(chain.from_iterable(map(of, rows))), lacking)


@fact("gpu_links", NVML, PCI, each="gpu_link")
def gpu_links(captures: Captures) -> Any:
    """How many links each GPU has."""
    return _chained(captures.once(_of_gpus), attrgetter("links"))


@fact("nvlinks", NVML, PCI, each="nvlink")
def nvlinks(captures: Captures) -> Any:
    """Every NVLink of every GPU."""
    return _chained(captures.once(_of_gpus), attrgetter("each"))


@fact("nvlink_errors", NVML, PCI, each="nvlink_counters")
def nvlink_errors(captures: Captures) -> Any:
    """The error counters of every NVLink up to the fourth generation."""
    return _chained(captures.once(_of_gpus), attrgetter("errors"))


@fact("nvlink5_errors", NVML, PCI, each="nvlink5_counters")
def nvlink5_errors(captures: Captures) -> Any:
    """The error counters of every NVLink of the fifth generation."""
    return _chained(captures.once(_of_gpus), attrgetter("errors5"))


def _for_all_links(index: int, kind: type[OfLink], why: Any) -> OfLink:
    """The one subject that stands for all links of a GPU."""
    return changed(kind.absent(f"GPU {index} NVLinks", why), gpu=index)


def _gpu_links(index: int, rows: Any, *, divided: bool) -> GpuLinks:
    if type(rows) is not list:
        return GpuLinks(name=f"GPU {index}", index=index, links=rows, active=rows, down=rows)
    states = _numbers([row[0] for row in rows], index)
    unread: Any = first_unread(states)
    active: Any = unread or states.count(1)
    down: Any = unread or tuple([
        link for link, state in enumerate(states) if type(state) is int and state != 1])
    if down and divided:
        down = LINKS
    if active == 0 and states and divided:
        active = LINKS
    return GpuLinks(name=f"GPU {index}", index=index, links=len(rows), active=active, down=down)


def _links(index: int, rows: Any, *, divided: bool) -> list[NvLink]:
    if not rows or type(rows) is not list:
        return [_for_all_links(index, NvLink, UNSUPPORTED if rows == [] else rows)]
    down: Any = LINKS if divided else False
    found = []
    state: Any
    kind: Any
    for link, (*numbers, remote) in enumerate(row[:_BEFORE] for row in rows):
        state, version, speed, kind = _numbers(numbers, index)
        found.append(
            NvLink(
                name=f"GPU {index} NVLink {link}",
                gpu=index,
                link=link,
                active=(state == 1 or down) if type(state) is int else state,
                version=version,
                gigabytes_per_second=speed / 1000 if type(speed) is int else speed,
                remote_type=_REMOTE.get(kind, "unknown") if type(kind) is int else kind,
                remote_pci=remote[:32]
                if type(remote) is str
                else _number(remote if type(remote) is int and remote < 0 else None, index),
            )
        )
    return found


def _errors(index: int, rows: Any, kind: type[OfLink], names: tuple[str, ...], start: int) -> list[OfLink]:
    """The counters of each link; one subject for the GPU where none of its links has any."""
    if type(rows) is not list:
        return [_for_all_links(index, kind, rows)]
    fifth, fields = kind is NvLink5Errors, ("name", "gpu", "link", *names)
    counted = [_fifth(row) if fifth else row[start:start + len(names)] for row in rows]
    if not any(counted) or all(value == -3 for values in counted for value in values):
        return [_for_all_links(index, kind, UNSUPPORTED)]
    found = []
    for link, values in enumerate(counted):
        numbers = _numbers(values or [-3] * len(names), index)
        read: dict[str, Any] = dict(zip(fields, (f"GPU {index} NVLink {link}", index, link, *numbers),
                                        strict=True))
        for name in _BER if fifth else ():
            if type(read[name]) is int:
                read[name] = bit_error_ratio(read[name])
        found.append(kind(**read))
    return found


def _fifth(row: Sequence[Any]) -> list[Any]:
    """The counters of NVLINK5 in a row, with what its bins come to; empty where it has none of them."""
    if len(row) < _LONG:
        return []
    if len(row) == _LONG:
        return [*row[_SHORT:], None, None, None]
    bins = row[-1]
    if type(bins) is not list or not bins or not all(type(count) is int for count in bins):
        return [*row[_SHORT:-1], None, None]
    lost = [count for count in bins if count < 0 and count != -3]
    if lost or all(count == -3 for count in bins):
        return [*row[_SHORT:-1], *[lost[0] if lost else -3] * 2]
    worst = max((at for at, count in enumerate(bins) if count > 0), default=0)
    return [*row[_SHORT:-1], sum(max(count, 0) for count in bins[1:]), worst]


def bit_error_ratio(value: int) -> float:
    """NVML's encoding of a ratio: four bits of mantissa above eight of the negated decimal exponent
    (NVML_NVLINK_BER_* of nvml.h)."""
    return float(f"{value >> 8 & 0xF}e-{value & 0xFF}")


@fact("gpu_pairs", NVML, PCI, each="gpu_pair")
def gpu_pairs(captures: Captures) -> Any:
    """Every pair of GPUs, in both orders."""
    found = _chained(_by_gpu(captures, "pairs of a GPU", ("p2p",), _pairs), tuple)
    if found == ():
        return each(captures, _alone)
    pairs, lacking = parted(found)
    divided, _ = parted(each(captures, lambda lines: frozenset(map(index_of, filter(is_divided, lines)))))
    return partial_if(_of_whole(pairs, divided), lacking)


def _of_whole(pairs: tuple[GpuPair, ...], divided: frozenset[int]) -> tuple[GpuPair, ...]:
    """The pairs; one with a divided GPU that does not reach the other is unmeasured."""
    if not divided:
        return pairs
    made = []
    for pair in pairs:
        peer = value_of(pair, "peer")
        for name in ("read", "write", "nvlink") if {pair.gpu, peer} & divided else ():
            if type(status := value_of(pair, name)) is str and status != "ok":
                pair = changed(pair, **{name: PAIRS})
        made.append(pair)
    return tuple(made)


def _alone(lines: Sequence[Line]) -> tuple[GpuPair, ...]:
    return tuple([_for_all_pairs(index_of(line), "alone", ALONE) for line in lines])


def _for_all_pairs(index: int, what: str, why: Any) -> GpuPair:
    """The one subject that stands for all pairs of a GPU."""
    return GpuPair(name=f"GPU {index} {what}", gpu=index,
                   **dict.fromkeys(("peer", "read", "write", "nvlink"), why))


def _pairs(line: Line) -> tuple[GpuPair, ...]:
    index, rows = index_of(line), handle_error(line) or reading(line, "p2p", list)
    if type(rows) is not list or len(rows) != index:
        if not index:
            return ()
        why = Unmeasured("NVML: p2p is not in the reader's format") if type(rows) is list else rows
        return (_for_all_pairs(index, "and those before it", why),)
    return _each_pair(index, (
        [_status(code, index, other) for code in row] if type(row) is list and len(row) == 6
        else [Unmeasured("NVML: the other GPU was not read", asked=(f"GPU {other}", DRIVER))] * 6
        for other, row in enumerate(rows)))


def _each_pair(index: int, rows: Iterable[list[Any]]) -> tuple[GpuPair, ...]:
    return tuple(
        GpuPair(name=f"GPU {gpu} to GPU {peer}", gpu=gpu, peer=peer, read=read, write=write, nvlink=nvlink)
        for other, words in enumerate(rows)
        for gpu, peer, (read, write, nvlink) in ((index, other, words[:3]), (other, index, words[3:])))


def _status(code: Any, *gpus: int) -> Any:
    value = _number(code, *gpus)
    return (_P2P[value] if value < len(_P2P) else "unknown") if type(value) is int else value
