"""Whose an error is, by its words: foreign text of any kind, of which only what is plainly a rank's own
accuses it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.whose import of_a_connection, of_its_own


@pytest.mark.parametrize("text", [
    "Connection reset by peer", "[Errno 111] Connection refused", "Broken pipe", "No route to host",
    "Network is unreachable", "Timed out waiting",
    "Socket Timeout", "cannot reach the head on port 4711 (10.0.0.1: timed out)", "the head has hung up",
    "NCCL error: remote process exited or there was",
])
def test_what_speaks_of_a_connection_is_not_the_ranks_own(text: str) -> None:
    assert of_a_connection(text) and not of_its_own(text)


@pytest.mark.parametrize("text", [
    "CUDA out of memory", "CUDA error: an illegal memory access was encountered",
    "CUBLAS_STATUS_EXECUTION_FAILED", "MemoryError: ",
    "ModuleNotFoundError: No module named 'numpy'", "Cuda failure 'uncorrectable ECC error encountered'",
])
def test_what_speaks_of_its_own_device_memory_or_program_is(text: str) -> None:
    assert of_its_own(text) and not of_a_connection(text)


def test_a_connection_that_is_named_beside_a_device_is_a_connection() -> None:
    assert not of_its_own("CUDA error: unspecified launch failure; Connection closed by peer")


@given(st.text())
def test_no_text_is_both(text: str) -> None:
    assert not (of_its_own(text) and of_a_connection(text))
