"""The NVML reader: on bindings that answer in every way, and on the real pynvml with a stand-in for NVIDIA's library."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from healthcheck import collector_nvml, program
from healthcheck.facts.gpu import NVML
from healthcheck.probes import Kind, Probe
from healthcheck.recording import Capture, Outcome
from inventory.errors import MusterError
from provisioning.demo.build import Libraries, build
from tests.testbed.collector import await_none_with, running
from tests.testbed.require import require


class NVMLError(Exception):
    """As pynvml's: the number is in `value`."""

    def __init__(self, value: int, words: str) -> None:
        super().__init__(words)
        self.value = value


def fail(code: int, words: str) -> Any:
    def call(*_: Any) -> Any:
        raise NVMLError(code, words)

    return call


def binding(**changed: Any) -> Any:
    """Something that answers like pynvml with one healthy GPU; what is None is not there at all."""
    answers: dict[str, Any] = {
        "NVMLError": NVMLError, "NVML_ERROR_NOT_SUPPORTED": 3, "NVML_VOLATILE_ECC": 0,
        "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "nvmlInit": lambda: None, "nvmlSystemGetDriverVersion": lambda: b"535.1", "nvmlSystemGetNVMLVersion": lambda: "12",
        "nvmlDeviceGetCount": lambda: 1, "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda gpu: "H100", "nvmlDeviceGetUUID": lambda gpu: f"GPU-{gpu}", "nvmlDeviceGetSerial": lambda gpu: "1",
        "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=b"00000001:9D:00.0"),
        "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(total=80), "nvmlDeviceGetEccMode": lambda gpu: [1, 0],
        "nvmlDeviceGetTotalEccErrors": lambda gpu, kind, counter: (kind + 1) * 10,
    }
    answers.update(changed)
    return SimpleNamespace(**{name: answer for name, answer in answers.items() if answer is not None})


def test_a_gpu_is_a_line_of_readings() -> None:
    head, gpu = collector_nvml.lines(binding())
    assert head == {"driver": {"ok": "535.1"}, "nvml": {"ok": "12"}, "count": {"ok": 1}}
    assert gpu == {
        "index": 0, "name": {"ok": "H100"}, "uuid": {"ok": "GPU-0"}, "serial": {"ok": "1"}, "pci": {"ok": "0001:9d:00.0"},
        "memory_bytes": {"ok": 80}, "ecc_mode": {"ok": 1}, "ecc_uncorrected": {"ok": 20}, "ecc_corrected": {"ok": 10},
    }


def test_what_the_device_has_not_what_failed_and_what_the_binding_lacks_cost_one_reading_each() -> None:
    _, gpu = collector_nvml.lines(binding(
        nvmlDeviceGetSerial=fail(3, "Not Supported"), nvmlDeviceGetEccMode=fail(15, "GPU is lost"), nvmlDeviceGetMemoryInfo=None))
    assert gpu["serial"] == {"na": True}
    assert gpu["ecc_mode"] == {"error": [15, "GPU is lost"]}
    assert gpu["memory_bytes"]["error"][0] == -1 and "nvmlDeviceGetMemoryInfo" in gpu["memory_bytes"]["error"][1]
    assert gpu["name"] == {"ok": "H100"}


def test_a_gpu_that_cannot_be_had_is_still_a_line() -> None:
    _, gpu = collector_nvml.lines(binding(nvmlDeviceGetHandleByIndex=fail(15, "GPU is lost")))
    assert gpu == {"index": 0, "error": [15, "GPU is lost"]}


def test_a_library_that_does_not_come_up_is_the_only_line() -> None:
    assert list(collector_nvml.lines(binding(nvmlInit=fail(9, "Driver Not Loaded")))) == [{"error": [9, "Driver Not Loaded"]}]


def test_without_a_count_no_gpu_is_guessed() -> None:
    (head,) = collector_nvml.lines(binding(nvmlDeviceGetCount=fail(999, "Unknown Error")))
    assert head["count"] == {"error": [999, "Unknown Error"]}


# In the collector

@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: 535\n")
    return tmp_path


def look(tree: Path, reader: str = "", library: str = "", *, probe: Probe = NVML, extras: dict[str, bytes] | None = None,
         env: dict[str, str] | None = None) -> tuple[Capture, int]:
    """The capture, and how often the extra was asked for."""
    with running([probe], tree, mark=str(tree), env=env) as started:
        if extras is None and reader:
            extras = {"nvml": zlib.compress(reader.encode() + b"\0" + library.encode())}
        asked = Asked(started.program.extras if extras is None else extras)
        started.program = dataclasses.replace(started.program, extras=asked)
        capture = started.recording().captures[probe.id]
        started.hang_up()
    await_none_with(str(tree))
    return capture, asked.times


class Asked(dict[str, bytes]):
    """Counts what is asked for."""

    times = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.times += 1
        return super().get(key, default)


LINES = "import time\ndef lines(nvml):\n    yield {'count': {'ok': 2}}\n    yield {'index': 0}\n    "


def test_the_reader_gets_its_binding_as_the_module_pynvml(tree: Path) -> None:
    reader = "import sys\ndef lines(nvml):\n    import pynvml\n    yield [nvml.ANSWER, pynvml is nvml, sys.modules['pynvml'].__name__]\n"
    capture, _ = look(tree, reader, "ANSWER = 42")
    assert (capture.outcome, capture.text) == (Outcome.DONE, '[42, true, "pynvml"]\n')


def test_a_gpu_that_hangs_leaves_those_that_were_read_before(tree: Path) -> None:
    capture, _ = look(tree, LINES + "time.sleep(1000)\n", probe=Probe("gpu.nvml", Kind.NVML, seconds=0.5))
    assert (capture.outcome, capture.text) == (Outcome.TIMEOUT, '{"count": {"ok": 2}}\n{"index": 0}\n')


def test_a_library_that_crashes_says_so(tree: Path) -> None:
    capture, _ = look(tree, LINES + "import os; os.abort()\n")
    assert (capture.outcome, capture.exit) == (Outcome.CRASHED, -6)


def test_a_reader_that_fails_tells_its_error(tree: Path) -> None:
    capture, _ = look(tree, LINES + "raise KeyError('what')\n")
    assert capture.outcome is Outcome.CRASHED and capture.note == "KeyError: 'what'"


def test_what_the_library_prints_does_not_get_into_the_answer(tree: Path) -> None:
    capture, _ = look(tree, "import os\ndef lines(nvml):\n    os.system('echo noise')\n    print('noise', flush=True)\n    yield {}\n")
    assert (capture.outcome, capture.text) == (Outcome.DONE, "{}\n")


def test_past_the_limit_whole_lines_are_kept(tree: Path) -> None:
    reader = "def lines(nvml):\n    for index in range(1000):\n        yield {'index': index}\n"
    capture, _ = look(tree, reader, probe=Probe("gpu.nvml", Kind.NVML, limit=1000))
    assert capture.outcome is Outcome.TRUNCATED and len(capture.text) <= 1000
    assert [json.loads(line)["index"] for line in capture.text.splitlines()] == list(range(capture.text.count("\n")))


@pytest.mark.parametrize("source", [b"not compressed", zlib.compress(b"def lines(\0")])
def test_a_damaged_source_is_a_crash_and_not_the_end_of_the_answer(tree: Path, source: bytes) -> None:
    capture, _ = look(tree, extras={"nvml": source})
    assert capture.outcome is Outcome.CRASHED and "rror" in capture.note


def test_a_head_without_the_binding_is_told_apart_from_a_node_without_gpus(tree: Path) -> None:
    capture, asked = look(tree, extras={})
    assert (capture.outcome, capture.note, asked) == (Outcome.MISSING, "the NVML reader was not sent", 1)


def test_a_node_without_an_nvidia_device_asks_for_nothing(tmp_path: Path) -> None:
    for name, fields in (("0000:01:00.0", "PCI_CLASS=20000\nPCI_ID=15B3:1021\n"), ("0000:02:00.0", "PCI_CLASS=68000\nPCI_ID=10DE:22A3\n")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "uevent").write_text(fields)
    capture, asked = look(tmp_path)
    assert (capture.outcome, capture.note, asked) == (Outcome.MISSING, "no NVIDIA device", 0)


def test_a_gpu_without_a_driver_is_found_on_the_pci_bus(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    folder.mkdir(parents=True)
    (folder / "uevent").write_text("PCI_CLASS=30200\nPCI_ID=10DE:2330\n")
    capture, asked = look(tmp_path, env={"LD_LIBRARY_PATH": ""})
    head = json.loads(capture.text)
    assert asked == 1 and capture.outcome is Outcome.DONE and head["error"][0] in (9, 12)


# The real binding

@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    try:
        return build(tmp_path_factory.mktemp("cache"))
    except MusterError as error:
        require(False, str(error))
        raise


def scenario(tree: Path, libraries: Libraries, *lines: str) -> dict[str, str]:
    (tree / "scenario").write_text("\n".join(lines))
    return {"LD_LIBRARY_PATH": str(libraries.folder), "MUSTER_NVML_SCENARIO": str(tree / "scenario")}


def test_eight_gpus_are_read_through_the_real_binding(tree: Path, libraries: Libraries) -> None:
    env = scenario(tree, libraries, "gpu.3.ecc.volatile.uncorrected = 12", "gpu.2.ecc.mode = unsupported", "gpu.5.error = 15")
    capture, _ = look(tree, env=env)
    assert capture.outcome is Outcome.DONE, capture
    head, *gpus = (json.loads(line) for line in capture.text.splitlines())
    assert head["count"] == {"ok": 8} and [gpu["index"] for gpu in gpus] == list(range(8))
    assert gpus[3]["ecc_uncorrected"] == {"ok": 12} and gpus[0]["ecc_uncorrected"] == {"ok": 0}
    assert gpus[2]["ecc_mode"] == {"na": True}
    assert 15 in [found["error"][0] for found in gpus[5].values() if isinstance(found, dict) and "error" in found] + [
        gpus[5].get("error", [0])[0]]
    assert len({gpu["pci"]["ok"] for gpu in gpus if gpu["index"] != 5}) == 7
    assert all(set(gpu) == {"index", *collector_nvml.GPU} for gpu in gpus if "error" not in gpu)


def test_a_driver_that_does_not_answer_for_one_gpu_keeps_the_others(tree: Path, libraries: Libraries) -> None:
    env = scenario(tree, libraries, "delay.nvmlDeviceGetHandleByIndex_v2 = 1000")
    capture, _ = look(tree, env=env, probe=Probe("gpu.nvml", Kind.NVML, seconds=2.0))
    assert capture.outcome is Outcome.TIMEOUT
    assert json.loads(capture.text.splitlines()[0])["count"] == {"ok": 8}


def test_the_binding_travels_as_text_and_is_not_imported_on_the_head() -> None:
    script = (
        "import sys\nfrom healthcheck import program\nfrom healthcheck.probes import ProbeSet\n"
        "extra = program.build(ProbeSet(())).extras['nvml']\nprint(len(extra) > 10000, 'pynvml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(program.__file__).parents[1], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
