"""paramiko as muster loads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


def test_paramiko_loads_without_invoke_and_whoever_wants_invoke_has_it_afterwards() -> None:
    pytest.importorskip("invoke", reason="paramiko's own dependency of late releases")
    said = ("import sys; from inventory.transport.quiet import paramiko; there = 'invoke' in sys.modules; "
            "import invoke; print(there)")
    done = subprocess.run([sys.executable, "-c", said], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_where_invoke_is_loaded_already_it_stays() -> None:
    pytest.importorskip("invoke", reason="paramiko's own dependency of late releases")
    said = "import sys, invoke; import inventory.transport.quiet; print(sys.modules['invoke'] is invoke)"
    done = subprocess.run([sys.executable, "-c", said], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
