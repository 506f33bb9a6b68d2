"""Who did not come to a collective."""

from __future__ import annotations

from healthcheck.joblog.absent import absent
from healthcheck.joblog.model import JobEvent, JobEventKind, JobLog


def waits(rank: int, work: int, group: str = "0") -> JobEvent:
    return JobEvent(JobEventKind.TIMEOUT, "", rank=rank, work=work, group=group, op="ALLREDUCE")


def entered(rank: int, work: int, group: str = "0") -> JobEvent:
    return JobEvent(JobEventKind.ENTERED, "", rank=rank, work=work, group=group)


def test_the_rank_that_had_begun_fewer_collectives_is_absent_and_those_that_waited_are_not() -> None:
    log = JobLog((*(waits(rank, 100) for rank in range(7)), *(entered(rank, 102) for rank in range(7)),
                  entered(7, 99)), {7: "gpu001"})
    [one] = absent(log)
    assert (one.rank, one.node, one.work, one.last, one.waited) == (7, "gpu001", 100, 99, 7)
    assert one.why == "rank 7 had begun 99 collectives while 7 ranks waited in ALLREDUCE 100"


def test_a_rank_that_was_there_and_says_nothing_is_absent() -> None:
    log = JobLog(tuple(waits(rank, 5) for rank in range(7)), dict.fromkeys(range(8), "gpu001"))
    assert [(one.rank, one.last) for one in absent(log)] == [(7, None)]


def test_ranks_whose_logs_were_not_given_are_not_accused() -> None:
    assert not absent(JobLog(tuple(waits(rank, 5) for rank in range(8)), world=64))


def test_where_all_waited_no_one_is_absent() -> None:
    assert not absent(JobLog(tuple(waits(rank, 5) for rank in range(8)), world=8))


def test_a_timeout_that_names_no_group_belongs_to_the_group_of_the_same_ranks_next_line() -> None:
    log = JobLog((*(waits(rank, 9, "") for rank in range(3)), *(entered(rank, 9, "2") for rank in range(3)),
                  entered(3, 8, "2")))
    assert [(one.rank, one.group) for one in absent(log)] == [(3, "2")]


def test_many_that_are_behind_few_are_not_accused() -> None:
    assert not absent(JobLog((waits(0, 11), *(entered(rank, 10) for rank in range(1, 8)))))
