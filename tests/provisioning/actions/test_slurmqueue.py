"""Which jobs that wait in Slurm could have some nodes, by what squeue and sinfo print."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.actions.base import ActionError
from provisioning.actions.slurmqueue import could_start, partitions, waiting

SINFO = """gpu1|train|reserved
gpu2|train|reserved
gpu3|train|idle
gpu4|train|allocated
gpu5|train|down*
cpu1|cpu|idle
gpu1|debug|reserved
"""
OURS = ("gpu1", "gpu2")


def could(squeue: str) -> str:
    return could_start(waiting(squeue), partitions(SINFO), OURS)


def test_a_job_that_would_fit_with_our_nodes_is_named_with_why_it_waits() -> None:
    assert could("17|3|(null)|train|Resources\n") == "job 17 waits for 3 nodes of partition train (Resources)"
    assert (could("17_[1-9%2]|1|(null)|cpu,debug|Priority\n")
            == "job 17_[1-9%2] waits for 1 node of partition debug (Priority)")
    assert could("17|1|(null)|train|ReqNodeNotAvail, May be reserved for other job") != ""
    assert could("17|1|(null)|train|Reservation\n") != ""
    assert could("17|1|(null)|train|Whatever a newer Slurm says|or not\n") != ""


@pytest.mark.parametrize("line", [
    "17|4|(null)|train|Resources",          # gpu4 has another job, and gpu5 is down
    "17|2K|(null)|train|Resources",
    "17|1|(null)|cpu|Resources",
    "17|1|theirs|train|Resources",
    "17|1|(null)|train|Dependency", "17|1|(null)|train|JobHeldUser",
    "17|1|(null)|train|QOSMaxJobsPerUserLimit",
    "17|1|(null)|train|AssocGrpNodeLimit", "17|1|(null)|train|BeginTime", "17|1|(null)|train|None", "",
])
def test_a_job_that_could_not_start_whatever_we_do_waits_on(line: str) -> None:
    assert could(line + "\n") == ""


@pytest.mark.parametrize(
    "line", ["17|1|(null)|train", "17|some|(null)|train|Resources", "slurm_load_jobs error: timeout"])
def test_what_squeue_cannot_have_meant_is_an_error_and_no_empty_queue(line: str) -> None:
    with pytest.raises(ActionError, match=r"squeue printed .* which cannot be read"):
        list(waiting(line))
    with pytest.raises(ActionError, match="sinfo printed"):
        partitions("gpu1|train")


@given(st.text(alphabet=st.sampled_from("ab1[-]|, \n()K.*~"), max_size=60), st.text(max_size=40))
def test_no_output_makes_anything_but_an_answer_or_an_error(squeue: str, sinfo: str) -> None:
    with contextlib.suppress(ActionError):
        assert isinstance(could_start(waiting(squeue), partitions(sinfo), OURS), str)
