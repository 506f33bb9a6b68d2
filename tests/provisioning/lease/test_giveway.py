"""A lease gives way to the first job that waits, and at the end of its budget, for good."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from provisioning.actions.base import ActionError
from provisioning.actions.slurm import SlurmBackend
from provisioning.lease.giveway import GiveWay


class Queue(SlurmBackend):
    """What waits, look by look; an error is raised."""

    def __init__(self, *looks: str | ActionError) -> None:
        super().__init__()
        self._looks: Iterator[str | ActionError] = iter(looks)

    def waiting(self, nodes: Collection[str]) -> str:
        check = next(self._looks)
        if isinstance(check, ActionError):
            raise check
        return check


def test_it_gives_way_to_the_first_job_and_stays_with_that() -> None:
    gives_way, queue = GiveWay(1000.0, lambda: 1.0), Queue("", "job 7 waits", "")
    assert [gives_way(queue, ["n1"]) for _ in range(4)] == ["", "job 7 waits", "job 7 waits", "job 7 waits"]
    assert gives_way.why == "job 7 waits"


def test_what_its_budget_does_not_cover_is_over_whoever_waits() -> None:
    now = iter([999.0, 1001.0])
    gives_way = GiveWay(1000.0, lambda: next(now))
    assert [gives_way(Queue(""), ["n1"]) for _ in range(2)] == ["", "its node-hours are used up"]


def test_a_queue_that_cannot_be_read_is_no_empty_one() -> None:
    with pytest.raises(ActionError, match="no answer"):
        GiveWay(1000.0, lambda: 1.0)(Queue(ActionError("no answer")), ["n1"])
