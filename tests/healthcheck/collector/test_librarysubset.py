"""What of pynvml goes to a node: all that the NVML reader needs, and little else."""

from __future__ import annotations

import importlib.util
import sys
import types
import zlib
from pathlib import Path

import pytest

from healthcheck.collector import program
from healthcheck.collector.librarysubset import subset
from healthcheck.model.probes import ProbeSet


def sent() -> tuple[str, str]:
    """The NVML reader and what travels with it of pynvml."""
    reader, _, part = zlib.decompress(program.build(ProbeSet(())).extras["nvml"]).decode().partition("\0")
    return reader, part


def pynvml() -> str:
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text()


def loaded(text: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """pynvml looks itself up among the modules while it is loaded."""
    module = types.ModuleType("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", module)
    exec(compile(text, "pynvml", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    return module


def named(code: types.CodeType) -> set[str]:
    """All names that a piece of code and what it defines look up."""
    return set(code.co_names).union(
        *(named(each) for each in code.co_consts if isinstance(each, types.CodeType)))


def test_whatever_the_whole_binding_has_for_the_reader_or_for_itself_the_part_has_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, text = sent()
    whole, part = loaded(pynvml(), monkeypatch), loaded(text, monkeypatch)
    words = {string for string in reader.replace("'", '"').split('"') if string.isidentifier()}
    looked_up = named(compile(reader, "reader", "exec")) | named(compile(text, "pynvml", "exec")) | words
    assert {name for name in looked_up if name in dir(whole) and not name.startswith("__")} <= set(dir(part))
    assert {"nvmlInit", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
            "NVML_AGGREGATE_ECC"} <= set(dir(part))
    assert [name for name in dir(part) if name.startswith("NVMLError")] == [
        name for name in dir(whole) if name.startswith("NVMLError")]


def test_the_part_is_small_and_keeps_the_notice_of_copyright() -> None:
    _, text = sent()
    assert len(text) < len(pynvml()) / 4
    assert text.startswith(pynvml().partition("import")[0].partition("from")[0])
    assert "Copyright" in text


LIBRARY = '''# (c) somebody
from os import *
import functools
import subprocess
from ctypes.util import find_library

A = 1
B = (
    A,
)
C = [A,
     B]

def helper(x):
    return x + A

@functools.cache
# A remark.
def used():
    return helper(B)

"""Words
def at_the_margin(
"""

class Unused:
    C

def _register():
    pass

_register()
NVML_ERROR_OF_ITS_OWN = 3
'''


def test_what_is_needed_brings_what_it_needs_in_turn() -> None:
    text = subset(LIBRARY, "def lines(nvml):\n    nvml.used()\n")
    assert text.startswith("# (c) somebody\n")
    for kept in ("from os import *", "import functools", "A = 1", "B = (", "def helper", "@functools.cache",
                 "def used", "def _register", "\n_register()", "OF_ITS_OWN"):
        assert kept in text
    assert not [gone for gone in ("class Unused", "C = [A", "import subprocess", "ctypes.util")
                if gone in text]
    scope: dict[str, object] = {}
    exec(text + "\nresult = used.__wrapped__", scope)  # noqa: S102  (it has kept its decorator)


def test_names_that_the_reader_puts_together_are_found_by_their_constant_part() -> None:
    library = "TYPE_A = 1\nTYPE_B = 2\nOF_C_ECC = 3\nOF_D_ECC = 4\nOTHER = 5\n"
    text = subset(library, "lambda nvml, x: getattr(nvml, 'TYPE_' + x) + getattr(nvml, \"OF_%s_ECC\" % x)")
    assert text == "TYPE_A = 1\nTYPE_B = 2\nOF_C_ECC = 3\nOF_D_ECC = 4\n"


@pytest.mark.parametrize("library", ["", "# nothing\n", "used = {\nOTHER: 1,\n}\n", "used = '\n",
                                     "if True:\n    pass\nused = 1 + \\\nother\n"])
def test_a_library_that_cannot_be_divided_travels_whole(library: str) -> None:
    assert subset(library, "nvml.used") == library
