"""Fixtures for the simulated fleet (the compiled libraries, and NVML as pynvml sees it) and for clusters of
Kubernetes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioning.demo.build import Libraries, build
from tests.testbed import apiserver
from tests.testbed.kubernetes import Serving, serving


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """The demo's C libraries, compiled into a folder of the tests' own."""
    return build(tmp_path_factory.mktemp("libraries"))


@pytest.fixture
def nvml(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Any]]:
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


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A real kube-apiserver, one for all tests."""
    if not apiserver.found():
        pytest.skip(apiserver.WHY_NOT)
    with apiserver.apiserver(tmp_path_factory.mktemp("apiserver")) as bed:
        yield bed


@pytest.fixture(params=["fake", pytest.param("real", marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Serving]:
    """A cluster without nodes: the stand-in, and in the slow tier a real one."""
    if request.param == "fake":
        with serving(tmp_path) as fake:
            yield fake
        return
    bed: Serving = request.getfixturevalue("real")
    apiserver.emptied(bed)
    yield bed
