"""What C++ code of PyTorch asks of our rendezvous store. gloo asks less of it than NCCL, which no test
without a GPU runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.testbed import torches

WALK = Path(__file__).with_name("storewalk.py")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    walked = subprocess.run([*torches.forked(), str(WALK), "7", "400"], capture_output=True, text=True,
                            check=False, timeout=100)
    assert walked.returncode == 0, walked.stderr[-2000:]
    return walked.stdout.splitlines()


def test_our_store_answers_every_question_of_c10d_as_pytorchs_own_does(lines: list[str]) -> None:
    assert (lines[:-1]
            == ["asked: ['add', 'append', 'check', 'clone', 'compare_set', 'delete_key', 'get', 'multi_get', "
                "'multi_set', "
                "'num_keys', 'set', 'wait']"])


def test_the_store_of_a_rank_still_answers_when_its_process_group_is_set_up(lines: list[str]) -> None:
    assert lines[-1] == "after set-up: b'of a communicator'"
