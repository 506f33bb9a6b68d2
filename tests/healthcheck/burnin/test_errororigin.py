"""Whether an error is a rank's own, by its words: only unmistakable ones accuse it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.errororigin import is_connection_error, is_own_error


@pytest.mark.parametrize("text", [
    "Connection reset by peer", "[Errno 111] Connection refused", "Broken pipe", "No route to host",
    "Network is unreachable", "Timed out waiting",
    "Socket Timeout", "cannot reach the head on port 4711 (10.0.0.1: timed out)", "the head has hung up",
    "NCCL error: remote process exited or there was",
])
def test_what_speaks_of_a_connection_is_not_the_ranks_own(text: str) -> None:
    assert is_connection_error(text) and not is_own_error(text)


@pytest.mark.parametrize("text", [
    "CUDA out of memory", "CUDA error: an illegal memory access was encountered",
    "CUBLAS_STATUS_EXECUTION_FAILED", "MemoryError: ",
    "ModuleNotFoundError: No module named 'numpy'", "Cuda failure 'uncorrectable ECC error encountered'",
])
def test_what_speaks_of_its_own_device_memory_or_program_is(text: str) -> None:
    assert is_own_error(text) and not is_connection_error(text)


def test_a_connection_that_is_named_beside_a_device_is_a_connection() -> None:
    assert not is_own_error("CUDA error: unspecified launch failure; Connection closed by peer")


@given(st.text())
def test_no_text_is_both(text: str) -> None:
    assert not (is_own_error(text) and is_connection_error(text))
