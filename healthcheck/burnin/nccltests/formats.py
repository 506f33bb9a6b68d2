"""Reads the output of nccl-tests or RCCL-tests, in any of its formats."""

from __future__ import annotations

from healthcheck.burnin.nccltests import jsonread, rccl
from healthcheck.burnin.nccltests.model import NcclRun
from healthcheck.burnin.nccltests.parse import HEADING, parse

_HEAD = 8192


def looks_like(text: str) -> bool:
    """Whether the text is such an output, by strings that no other file contains."""
    head = text[:_HEAD]
    cut_off = text[:64].lstrip().startswith("{") and '"args":[' in head and '"start_time":' in head
    lines = ('"busBw":' in head and '"algBw":' in head) or rccl.is_csv(head)
    return HEADING.search(text) is not None or lines or (cut_off and jsonread.is_ours(jsonread.load(text)))


def read(text: str) -> tuple[NcclRun, ...]:
    """The runs in the text; none where it has no such format."""
    run = jsonread.read(text) or rccl.read(text)
    return (run,) if run is not None else parse(text)
