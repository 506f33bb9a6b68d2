"""Reads what nccl-tests or RCCL-tests said, in whichever of its forms."""

from __future__ import annotations

from healthcheck.burnin.nccltests import jsonread, rccl
from healthcheck.burnin.nccltests.model import NcclRun
from healthcheck.burnin.nccltests.parse import HEADING, parse

_HEAD = 8192


def looks_like(text: str) -> bool:
    """Whether it is one of them, told by what no other file holds."""
    head = text[:_HEAD]
    cut_off = text[:64].lstrip().startswith("{") and '"args":[' in head and '"start_time":' in head
    lines = ('"busBw":' in head and '"algBw":' in head) or rccl.is_csv(head)
    return HEADING.search(text) is not None or lines or (cut_off and jsonread.is_ours(jsonread.load(text)))


def read(text: str) -> tuple[NcclRun, ...]:
    """The runs it tells of; none where it is of no such form."""
    run = jsonread.read(text) or rccl.read(text)
    return (run,) if run is not None else parse(text)
