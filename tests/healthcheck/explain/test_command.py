"""`muster explain FILE` as a user runs it: exit codes, standard input, JSON, names that are rules,
recordings and folders."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.sweep.saved import encode_one, load_manifest, recordings
from tests.command import MUSTER, environment, muster
from tests.healthcheck.explain.cases import FOLDER

SWEEP = FOLDER.parent / "demo-sweep"


@pytest.mark.parametrize(("name", "code"), [("gpu-off-bus.dmesg", 1), ("healthy.dmesg", 0), ("README.md", 2)])
def test_the_exit_code_is_that_of_the_contract(tmp_path: Path, name: str, code: int) -> None:
    told = muster("explain", str(FOLDER / name), home=tmp_path)
    assert told.returncode == code
    assert (told.stderr == "") is (code != 2)
    assert told.stderr.count("\n") == (code == 2)


def test_a_file_that_is_not_whole_and_shows_nothing_exits_with_3(tmp_path: Path) -> None:
    whole = (FOLDER / "healthy.bug-report.log").read_bytes()
    (tmp_path / "cut.log").write_bytes(whole[:-200])
    told = muster("explain", "cut.log", home=tmp_path)
    assert told.returncode == 3
    assert told.stdout.startswith("Nothing found in cut.log")
    assert "not read" in told.stdout


def test_standard_input_is_a_file(tmp_path: Path) -> None:
    with (FOLDER / "gpu-off-bus.dmesg").open("rb") as piped:
        told = subprocess.run([str(MUSTER), "explain", "-"], cwd=tmp_path, env=environment(tmp_path),
                              stdin=piped, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 1
    assert told.stdout.startswith("GPU at PCI 0000:3b:00, Xid 79")
    assert "standard input (kernel log" in told.stdout


def test_the_document_holds_what_the_page_says(tmp_path: Path) -> None:
    told = muster("explain", str(FOLDER / "gpu-ecc.torchrun.log"), "--format", "json", home=tmp_path)
    document = json.loads(told.stdout)
    assert told.returncode == 1
    assert (document["schema"], document["kind"], document["wrong"]) == ("muster.explain/1", "job log", True)
    first = document["causes"][0]
    assert (first["subject"], first["sure"], first["owner"], first["symptom"]) == (
        "gpu017, rank 3", "certain", "operator", False)
    assert first["lines"] == [
        {"line": 4, "text": "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered"}]


def test_a_rule_goes_before_a_file_of_its_name_and_a_slash_makes_it_a_file(tmp_path: Path) -> None:
    for name in ("gpu-count", "policy", "xid"):
        shutil.copy(FOLDER / "gpu-off-bus.dmesg", tmp_path / name)
        assert "Xid 79" not in muster("explain", name, home=tmp_path).stdout.partition("\n")[0]
        assert muster("explain", f"./{name}", home=tmp_path).stdout.startswith(
            "GPU at PCI 0000:3b:00, Xid 79")


@pytest.mark.parametrize(("words", "said"), [
    (("none.log",), "no such rule or file: 'none.log'"),
    (("./none.log",), "'./none.log' cannot be read: No such file or directory"),
    (("a.log", "b.log"), "so 'b.log' is one argument too many"),
])
def test_what_is_no_file_is_said_in_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "a.log").write_text("x")
    told = muster("explain", *words, home=tmp_path)
    assert told.returncode == 2
    assert said in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_saved_sweep_and_a_recording_are_judged_by_the_rules(tmp_path: Path) -> None:
    whole = muster("explain", str(SWEEP), home=tmp_path)
    assert whole.returncode == 1
    assert whole.stdout.startswith("gpu002: GPU 5: ecc uncorrected: 35, expected at most 0")
    assert "gpu004: It could not be reached (connect)" in whole.stdout
    one = muster("explain", str(SWEEP / "nodes/gpu002.json"), home=tmp_path)
    assert one.returncode == 1
    assert one.stdout.startswith("gpu002: GPU 5: ecc uncorrected: 35")


def test_the_document_of_a_check_is_explained(tmp_path: Path) -> None:
    checked = muster("check", "--replay", str(SWEEP), "--format", "json", home=tmp_path)
    (tmp_path / "check.json").write_text(checked.stdout)
    told = muster("explain", "check.json", home=tmp_path)
    assert told.returncode == 1
    assert "gpu002: GPU 5: 35; expected at most 0" in told.stdout


def test_a_site_adds_what_its_own_launcher_says(tmp_path: Path) -> None:
    (tmp_path / "rules/joblog").mkdir(parents=True)
    (tmp_path / "rules/joblog/site.yaml").write_text(
        "- {id: site-stuck, match: 'site watchdog: stuck', sure: certain, severity: critical, meaning: Our "
        "watchdog ended it,\n"
        "   remedy: Ask us., owner: user, source: ours, examples: ['site watchdog: stuck']}\n")
    (tmp_path / "job.log").write_text("slurmstepd: error: x\nsite watchdog: stuck\n")
    told = muster("explain", "job.log", "--rules", "rules", home=tmp_path)
    assert told.returncode == 1
    assert told.stdout.startswith("Our watchdog ended it. (certain; owner: user)")


@pytest.mark.parametrize("key", ["sweep", "look"])      # the second in files of earlier versions
def test_one_nodes_file_is_judged_with_what_its_sweep_knew(tmp_path: Path, key: str) -> None:
    manifest = load_manifest(SWEEP)
    recording, previous = next(look for look in recordings(SWEEP, manifest) if look[0].node == "gpu003")
    alone = replace(manifest, nodes=tuple(node for node in manifest.nodes if node.name == "gpu003"))
    document = json.loads(encode_one(recording, previous, alone, muster="1", scrubbed=False))
    document[key] = document.pop("sweep")
    (tmp_path / "gpu003.json").write_text(json.dumps(document))
    told = muster("explain", "gpu003.json", home=tmp_path)
    assert told.returncode == 1
    # A link that was lost again since the earlier snapshot shows in no snapshot alone.
    assert "lost its link 3 times since the earlier snapshot" in told.stdout
