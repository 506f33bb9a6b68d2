"""paramiko as muster loads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("said", "printed"), [
    ("import sys; from inventory.transport.quiet import paramiko; there = 'invoke' in sys.modules; "
     "import invoke; print(there)", "False"),
    ("import sys, invoke; import inventory.transport.quiet; print(sys.modules['invoke'] is invoke)", "True")])
def test_paramiko_loads_without_invoke_which_others_have_afterwards_and_keep(said: str, printed: str) -> None:
    pytest.importorskip("invoke", reason="paramiko's own dependency of late releases")
    done = subprocess.run([sys.executable, "-c", said], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{printed}\n", "")
