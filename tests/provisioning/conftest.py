"""Fixtures for the simulated fleet: the compiled libraries, and NVML as pynvml sees it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioning.demo.build import Libraries, build


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """The demo's C libraries, compiled into a folder of the tests' own."""
    return build(tmp_path_factory.mktemp("libraries"))


@pytest.fixture
def nvml(libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Call it with the scenario's lines: pynvml, initialised on our library."""
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(libraries.nvml)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    started = []

    def start(*lines: str) -> Any:
        scenario = tmp_path / "scenario"
        scenario.write_text("".join(f"{line}\n" for line in lines))
        monkeypatch.setenv("MUSTER_NVML_SCENARIO", str(scenario))
        pynvml.nvmlInit()
        started.append(1)
        return pynvml

    yield start
    for _ in started:
        pynvml.nvmlShutdown()
