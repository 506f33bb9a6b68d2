"""What squeue prints of jobs and their nodes is read, or refused in one line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.discover import CommandOutput
from inventory.errors import UsageError
from inventory.jobnodes import SQUEUE, JobNodes, jobs_now, parse


def test_jobs_that_have_nodes_are_read_and_those_that_wait_or_are_over_are_not() -> None:
    printed = (b"12|RUNNING|gpu[001-002]\n13|PENDING|\n14|COMPLETED|gpu003\n15|COMPLETING|gpu004\n"
               b"16|SUSPENDED|gpu005,gpu001\n")
    asked = []
    found = jobs_now(lambda argv: (asked.append(tuple(argv)), CommandOutput(0, printed, b""))[1])
    assert found == (JobNodes("12", ("gpu001", "gpu002")), JobNodes("15", ("gpu004",)),
                     JobNodes("16", ("gpu001", "gpu005")))
    assert asked == [SQUEUE]


@pytest.mark.parametrize("line", ["12", "12|RUNNING", "x|RUNNING|gpu001", "JOBID|STATE|NODELIST",
                                  "12|RUNNING|gpu[001"])
def test_what_squeue_does_not_print_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(UsageError, match=r"^jobs\.txt:2: .*--format='%A\|%T\|%N'$") as refused:
        parse(f"1|RUNNING|gpu001\n{line}\n", "jobs.txt")
    assert "\n" not in str(refused.value)


@given(st.text() | st.text(alphabet="12|RUNGcp[]-,\n "))
def test_whatever_a_file_has_it_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        for job in parse(text, "x"):
            assert job.job.isdecimal() and job.nodes and len(set(job.nodes)) == len(job.nodes)
