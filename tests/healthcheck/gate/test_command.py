"""`muster gate` as a launch script runs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.gate.policy import read
from healthcheck.gate.policyload import load_gate_policy
from inventory.errors import RulesError
from tests.command import muster
from tests.healthcheck.gate.fleet import (
    FOREIGN,
    NAMESPACE,
    POLICY,
    Place,
    certificate,
    document,
    fleet,
    public,
    signature,
)

HOUR = 3600


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "gate")
    made.put()
    return made


def gate(place: Place, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    done = muster("gate", *place.words, *words, home=place.snapshot.parent.parent, **more)
    assert "Traceback" not in done.stderr + done.stdout
    return done


def odd(**nodes: dict[str, Any]) -> dict[str, Any]:
    return fleet(4, int(time.time()), **nodes)


def test_it_opens_in_one_line(place: Place) -> None:
    done = gate(place, "gpu[001-004]")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("muster gate: open: 4 nodes (snapshot 7 of alpha, ")


def test_it_closes_with_node_why_and_what_to_do(place: Place) -> None:
    place.put(odd(gpu002={"lifecycle": "rma"}, gpu003={"certificate": None}, gpu004={"certificate": None}))
    done = gate(place, "gpu[001-004]")
    assert done.returncode == 1
    first, *rest = done.stdout.splitlines()
    assert first.startswith("muster gate: closed: 3 of 4 nodes")
    assert rest == ["  gpu002: not in service: rma", "      muster inventory lifecycle gpu002",
                    "  gpu[003-004]: no certificate: it has not passed a burn-in",
                    "      muster burnin run gpu[003-004]"]


def test_the_same_as_json(place: Place) -> None:
    place.put(odd(gpu002={"lifecycle": "rma"}, gpu003={"state": "degraded", "why": "a fan"}))
    done = gate(place, "gpu[001-004]", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr, said["schema"], said["gate"], said["nodes"]) == (
        1, "", "muster.gate-answer/1", "closed", 4)
    assert said["why"] == [{"node": "gpu002", "gate": "closed", "why": "not in service: rma",
                            "do": "muster inventory lifecycle gpu002"}]
    assert said["notices"] == [{"nodes": ["gpu003"], "text": "degraded: a fan"}]
    assert said["snapshot"]["serial"] == 7


def test_notices_go_to_standard_error(place: Place) -> None:
    place.put(odd(
        gpu003={"certificate": certificate(kind="requalify", cause="age", why="last proven 93 days ago")}))
    done = gate(place, "gpu[001-004]")
    assert done.returncode == 0
    assert done.stderr == "muster gate: note: gpu003: must requalify: last proven 93 days ago\n"


@pytest.mark.parametrize(("words", "expected"), [
    ((), 2), (("gpu001", "--slurm-prolog"), 2), (("gpu001", "--need", "3"), 2), (("gpu[1-",), 2),
    (("--hostfile", "/no/such"), 2), (("--group", "nobody"), 2), (("gpu001", "--print", "torque"), 2),
    (("--nodelist", ""), 1), (("",), 1), (("gpu999",), 1),
])
def test_what_is_asked_wrongly_never_opens(place: Place, words: tuple[str, ...], expected: int) -> None:
    done = gate(place, *words)
    assert done.returncode == expected, done


def test_groups_wildcards_and_files_of_hosts_name_nodes(place: Place) -> None:
    place.put(odd(gpu001={"groups": ["train"]}, gpu002={"groups": ["train"]}, gpu003={"lifecycle": "rma"}))
    hosts = place.keys.with_name("hosts")
    hosts.write_text("# two of them\ngpu001 slots=8\n\ngpu002:8\n")
    for words in (("--group", "train"), ("--group", "@train"), ("@train",), ("gpu*!gpu[003-004]",),
                  ("--hostfile", str(hosts))):
        done = gate(place, *words)
        assert done.returncode == 0 and "open: 2 nodes" in done.stdout, (words, done)
    assert gate(place, "gpu*").returncode == 1


def test_an_empty_file_of_hosts_closes(place: Place) -> None:
    hosts = place.keys.with_name("hosts")
    hosts.write_text("# nobody\n")
    assert gate(place, "--hostfile", str(hosts)).returncode == 1


def test_a_file_that_holds_no_hosts_is_an_error_with_its_line(place: Place) -> None:
    hosts = place.keys.with_name("hosts")
    hosts.write_text("gpu001\n\x1b[31m;rm\n")
    done = gate(place, "--hostfile", str(hosts))
    assert done.returncode == 2 and f"{hosts}:2" in done.stderr and "\x1b" not in done.stderr


def test_a_forged_altered_or_foreign_snapshot_closes(place: Place) -> None:
    good = place.snapshot.read_bytes()
    sealed = place.snapshot.with_name("gate.json.sig")
    place.snapshot.write_bytes(good.replace(b'"service"', b'"retired"', 1))
    assert gate(place, "gpu001").returncode == 1                      # altered
    place.put(key=FOREIGN)
    done = gate(place, "gpu001")
    assert done.returncode == 1 and "it was not signed by a key trusted here" in done.stdout      # foreign
    place.snapshot.write_bytes(good)
    sealed.write_bytes(signature(good, namespace="muster-certificate"))
    assert gate(place, "gpu001").returncode == 1                      # signed for another purpose
    sealed.write_bytes(b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n")
    assert gate(place, "gpu001").returncode == 1                      # forged


def test_an_older_snapshot_that_was_put_back_closes(place: Place) -> None:
    place.saw(8)
    done = gate(place, "gpu001")
    assert done.returncode == 1 and "an older snapshot was restored" in done.stdout
    place.saw(7)
    assert gate(place, "gpu001").returncode == 0


def test_a_snapshot_of_another_cluster_closes(place: Place) -> None:
    place.saw(7, "beta")
    assert gate(place, "gpu001").returncode == 1


@pytest.mark.parametrize("name", ["gate.json", "gate.json.sig", "gate.pub"])
def test_without_snapshot_signature_or_keys_no_one_can_tell(place: Place, name: str) -> None:
    place.snapshot.with_name(name).unlink()
    done = gate(place, "gpu001")
    assert done.returncode == 3 and done.stdout.startswith("muster gate: unknown"), done


def test_keys_that_others_may_write_are_not_trusted(place: Place) -> None:
    place.keys.chmod(0o666)
    assert gate(place, "gpu001").returncode == 3


def test_either_of_two_keys_is_trusted_while_one_takes_over(place: Place) -> None:
    place.keys.write_text(public(FOREIGN).line([NAMESPACE]) + place.keys.read_text())
    assert gate(place, "gpu001").returncode == 0
    place.put(key=FOREIGN)
    assert gate(place, "gpu001").returncode == 0


def test_a_head_that_is_off_for_eight_hours_opens_with_a_notice(place: Place) -> None:
    place.put(now=int(time.time()) - 8 * HOUR)
    done = gate(place, "gpu[001-004]")
    assert done.returncode == 0 and "the snapshot is 8 h old" in done.stderr
    place.put(now=int(time.time()) - 25 * HOUR)
    assert gate(place, "gpu[001-004]").returncode == 3


def test_a_node_judges_itself_by_the_name_that_slurm_gives_it_or_by_its_own(place: Place) -> None:
    own = socket.gethostname().split(".")[0]
    nodes = odd(gpu002={"lifecycle": "rma"})
    nodes[own] = nodes["gpu001"]
    place.put(nodes)
    assert gate(place, "--slurm-prolog", SLURMD_NODENAME="gpu001").returncode == 0
    assert gate(place, "--slurm-prolog", SLURMD_NODENAME="gpu002").returncode == 1
    assert gate(place, "--slurm-prolog", SLURMD_NODENAME="gpu001.example.org").returncode == 0
    assert gate(place, "--slurm-prolog").returncode == 0
    assert gate(place, "--slurm-prolog", SLURMD_NODENAME="gpu009").returncode == 1


def test_the_variables_point_at_snapshot_and_keys(place: Place, tmp_path: Path) -> None:
    found = {"MUSTER_GATE": str(place.snapshot.parent), "MUSTER_GATE_KEYS": str(place.keys)}
    assert muster("gate", "gpu001", home=tmp_path, **found).returncode == 0


def test_openssh_itself_accepts_what_the_gate_accepts(place: Place) -> None:
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(place.keys), "-I", "muster", "-n", NAMESPACE, "-s",
            f"{place.snapshot}.sig"]
    assert subprocess.run(argv, input=place.snapshot.read_bytes(), check=False,
                          capture_output=True).returncode == 0


def test_what_a_hostile_snapshot_says_is_shown_as_text(place: Place) -> None:
    place.put(odd(gpu002={"state": "unhealthy", "why": "\x1b[2J\n{} {0} %s"}))
    done = gate(place, "gpu002")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout and "unhealthy: \\x1b[2J\\n{} {0} %s" in done.stdout


def test_quick_looks_at_the_nodes_by_the_gate_profile(place: Place) -> None:
    """A machine that tests run on has no eight GPUs: that is found out now, whatever the snapshot says."""
    done = gate(place, "--slurm-prolog", "--quick", "--sku", "hgx-h100", "--json", SLURMD_NODENAME="gpu001")
    (why,) = json.loads(done.stdout)["why"]
    assert done.returncode == 1
    assert why["node"] == "gpu001" and why["why"].startswith("fails gpu-count now: GPUs on PCI: ")


def test_what_quick_could_not_judge_is_reported_where_it_opens(place: Place) -> None:
    """No one says what this machine should have: that is muster's own lack, which the gate profile allows."""
    done = gate(place, "--slurm-prolog", "--quick", SLURMD_NODENAME="gpu001")
    assert done.returncode == 0 and "rules could not be judged, which profile gate allows" in done.stderr


def test_quick_looks_at_no_node_behind_a_closed_gate(place: Place) -> None:
    place.put(odd(gpu001={"lifecycle": "rma"}))
    assert [why["why"] for why in json.loads(gate(place, "gpu001", "--quick", "--json").stdout)["why"]] == [
        "not in service: rma"]


def test_quick_looks_at_whom_it_writes_down_also_where_others_are_closed(place: Place) -> None:
    """No node of that name is to be had: a file with one in it that no one looked at would be a false yes."""
    place.put(odd(gpu001={"lifecycle": "rma"}))
    home = place.snapshot.parent.parent
    (home / "names.yaml").write_text("version: 1\nnodes:\n  gpu001: {address: 127.0.0.1, port: 1}\n  gpu002: "
                                     "{address: 127.0.0.1, port: 2}\n")
    done = gate(place, "gpu[001-002]", "--quick", "-i", "names.yaml", "--write-hostfile", "open",
                "--need", "1")
    assert done.returncode in (1, 3) and not (home / "open").exists(), done


def test_nothing_that_is_not_needed_is_imported(place: Place) -> None:
    """The whole way of one node: no reader of YAML, no network, no processes, no file trees,
    and none of the heavy packages."""
    program = ("import sys; sys.argv = ['muster', 'gate', *sys.argv[1:]]; import os; os._exit = lambda code: "
               "None\n"
               "from healthcheck.cli.main import main; main(); print(*sorted(sys.modules))")
    done = subprocess.run([sys.executable, "-c", program, *place.words, "gpu001"], capture_output=True,
                          text=True, check=True,
                          env={"PATH": os.environ["PATH"], "HOME": str(place.snapshot.parent)})
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "healthcheck.gate.decide" in loaded
    unwanted = {"yaml", "rich", "paramiko", "ClusterShell", "cryptography", "sqlite3", "subprocess", "socket",
                "ssl", "tempfile", "shutil", "logging", "urllib.request", "http.client", "inventory.model",
                "inventory.nodeset", "healthcheck.ruleset.rule", "healthcheck.model.outcome"}
    assert not loaded & unwanted


def test_the_policy_that_ships_is_the_one_that_a_snapshot_carries(tmp_path: Path) -> None:
    policy = load_gate_policy([packaged()])
    assert read(json.loads(json.dumps(policy.document()))) == policy
    assert (policy.stage, policy.fresh, policy.grace, policy.equal) == (
        "quick", 3600, 86400, ("driver-branch",))


def test_a_site_changes_single_keys_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(
        "grace: {hours: 48}\nunknown: {rules: {kernel-*: allow}}\nversions: {equal: [driver, cuda]}\n")
    policy = load_gate_policy([packaged(), tmp_path])
    assert (policy.grace, policy.rules, policy.equal, policy.stage) == (
        48 * HOUR, (("kernel-*", "allow"),), ("driver", "cuda"), "quick")


@pytest.mark.parametrize(("text", "said"), [
    ("grace: 24\n", "1:8: grace: expected a map of hours; got 24"),
    ("grace: {hours: -1}\n", "1:16: grace: hours: expected a number from 0 to 8784"),
    ("certificate: {stage: long}\n", "1:22: certificate: stage: expected one of quick, standard, soak"),
    ("state: {unhealthy: perhaps}\n", "1:20: state: unhealthy: expected one of block, allow"),
    ("stat: {}\n", "1:1: unknown key 'stat'; did you mean 'state'?"),
    ("fresh: {minute: 3}\n", "1:9: fresh: unknown key 'minute'; did you mean 'minutes'?"),
    ("unknown: {rules: [a]}\n", "1:18: unknown: rules: expected a map"),
    ("unknown: {rules: {a: maybe}}\n", "1:22: unknown: rules: a: expected one of block, allow"),
    ("versions: {equal: [Driver]}\n", "1:20: versions: equal: expected a name"),
    ("- a\n", "1:1: expected a map of certificate, state"),
])
def test_a_mistake_in_the_policy_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(RulesError) as caught:
        load_gate_policy([packaged(), tmp_path])
    assert str(caught.value).startswith(f"{file}:{said}")


def test_the_documents_of_these_tests_carry_the_policy_that_ships() -> None:
    assert document({})["policy"] == POLICY
