"""The rate of false accusations by noise: what scripts/bench/falsealarms finds, and that it finds worse."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import torches

# Looked for, not imported: each worker reads this file, and an import takes more than a second.
pytestmark = pytest.mark.skipif(find_spec("torch") is None,
                                reason="scripts/bench/falsealarms draws its numbers with PyTorch")
BENCH = Path(__file__).resolve().parents[3] / "scripts/bench/falsealarms"


def rate(*words: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run([*torches.forked(), str(BENCH), "--json", "--processes", "1", *words],
                          capture_output=True, text=True,
                          check=False, timeout=3000)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_of_sound_nodes_none_is_accused_in_a_few_runs_which_prove_little() -> None:
    code, found = rate("--nodes", "8", "--runs", "20")
    assert found["runs_with_an_accusation"] == 0 and found["innocents"] == {}
    assert code == 1 and found["upper_95"] == pytest.approx(1 - 0.05 ** (1 / 20), abs=1e-4)


@pytest.mark.parametrize(("words", "rule"),
                         [(("--hiccups", "0.2"), "jitter"), (("--noise", "0.05"), "below the floor"),
                          (("--noise-by-size", "0.25"), "below the floor of a size")])
def test_worse_noise_than_the_rules_are_made_for_is_found(words: tuple[str, ...], rule: str) -> None:
    code, found = rate("--nodes", "8", "--runs", "40", "--seed", "3", *words)
    assert code == 1 and found["innocents"].get(rule, 0) > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("nodes", "noise"),
                         [("8", "0.005"), ("8", "0.01"), ("512", "0.005"), ("4096", "0.005")])
def test_in_at_most_one_burn_in_of_a_thousand_is_an_innocent_accused(nodes: str, noise: str) -> None:
    code, found = rate("--nodes", nodes, "--noise", noise, "--runs", "3000")
    assert code == 0 and found["runs"] == 3000 and found["upper_95"] <= 0.001, found
