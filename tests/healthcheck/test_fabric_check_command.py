"""`muster fabric check` from saved outputs, and on a node whose tools print them."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from healthcheck.cli.main import root
from healthcheck.collector import program, reply
from healthcheck.model.probes import ProbeSet
from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.sweep import fabriclook
from healthcheck.sweep.rootprobes import root_probes
from tests.documents import validate
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import two_tiers

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def plan() -> CablingPlan:
    made = two_tiers(8, 4, 2)
    return replace(made, cables=tuple(replace(cable, speed="NDR") for cable in made.cables))


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("MUSTER_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def saved(folder: Path, plan: CablingPlan, time: float, errors: dict[tuple[PlannedEnd, str], int] | None = None) -> Path:
    fabricoutputs.write(plan, folder, errors)
    (folder / "look.json").write_text(json.dumps({"schema": "muster.fabric.look/1", "time": time}))
    return folder


def run(*words: object) -> Result:
    return CliRunner().invoke(root, ["fabric", "check", *map(str, words)])


def test_a_healthy_fabric_exits_0_and_says_so(tmp_path: Path, plan: CablingPlan) -> None:
    (tmp_path / "plan.csv").write_text(plancsv.write(plan))
    first, second = saved(tmp_path / "a", plan, 1000), saved(tmp_path / "b", plan, 4600)
    result = run("--from", second, "--since", first, "--plan", tmp_path / "plan.csv")
    assert (result.exit_code, result.output.splitlines()) == (0, [
        "subnet: 4 switches, 8 adapters, 12 links", "counters: what was added in 3600 s", "nothing is wrong"])


def test_without_an_earlier_sample_or_a_rate_it_is_unknown_and_exits_3(tmp_path: Path) -> None:
    result = run("--from", saved(tmp_path / "a", two_tiers(2, 1, 1), 1000))
    assert result.exit_code == 3 and "there is no earlier sample of counters" in result.output
    assert "nothing says which width and rate links should have" in result.output


def test_what_is_wrong_is_by_its_schema_and_as_it_was(tmp_path: Path, plan: CablingPlan) -> None:
    (tmp_path / "plan.csv").write_text(plancsv.write(plan))
    host, other = plan.cables[-1], plan.cables[-2]
    there = replace(plan, cables=(*plan.cables[:-3], replace(plan.cables[-3], speed="HDR"), other))
    first = saved(tmp_path / "a", plan, 1000)
    second = saved(tmp_path / "b", there, 4600, {(other.b, "SymbolErrorCounter"): 900, (other.a, "LinkDownedCounter"): 2})
    (second / "ibdiagnet2.db_csv").write_text("START_NODES\nNodeGUID,NodeType,NodeDesc\n0xa088c20300000000,1,gpu001 mlx5_0\nEND_NODES\nSTART_CABLE_INFO\n"
                                              "NodeGuid,PortNum,Temperature\n0xa088c20300000000,1,76C\nEND_CABLE_INFO\n")
    words = ("--from", second, "--since", first, "--plan", tmp_path / "plan.csv")
    result = run(*words, "--format", "json")
    document = json.loads(result.output)
    validate(document, "fabric-check-1")
    assert (result.exit_code, document["exit"]) == (1, 1)
    golden = GOLDEN / "fabric-check.json"
    if os.environ.get("MUSTER_GOLDEN") == "write":
        golden.write_text(json.dumps(document, indent=1) + "\n")
    assert document == json.loads(golden.read_text())
    text = run(*words)
    assert host.a.device in text.output and len(text.output.splitlines()) < 20


def test_planes_are_the_folders_in_the_folder(tmp_path: Path) -> None:
    plan = two_tiers(4, 2, 1)
    for plane in ("plane1", "plane2"):
        saved(tmp_path / "out" / plane, plan, 1000)
    result = run("--from", tmp_path / "out", "--speed", "NDR", "--format", "json")
    assert [one["name"] for one in json.loads(result.output)["subnets"]] == ["plane1", "plane2"]


@pytest.mark.parametrize(("words", "message"), [
    ((), "give NODE, or --from FOLDER"), (("gpu001", "--from", "x"), "give NODE, or --from FOLDER"), (("--from", "nowhere"), "is no folder"),
    (("--from", "."), "no file in it is called"), (("gpu001", "--via", "a b"), "no name of a device"), (("gpu001", "--since", "x"), "--since goes with")])
def test_wrong_words_are_one_line_and_exit_2(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2 and message in result.output
    assert "Traceback" not in result.output


def test_what_the_tools_of_a_node_print_is_taken_as_the_collector_sends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probes run in the collector, with programs in the tools' places; one of them is missing, and one ends with status 1."""
    outputs = fabricoutputs.write(two_tiers(4, 2, 1), tmp_path / "outputs")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool, text in {"iblinkinfo": "iblinkinfo", "ibnetdiscover": "ibnetdiscover", "ibqueryerrors": "ibqueryerrors", "saquery": "saquery-smir"}.items():
        path = tools / tool
        path.write_text(f"#!/bin/sh\ncase \"$1\" in -p) cat {outputs}/{text}-p.txt;; -s) echo IsSM ports;; *) cat {outputs}/{text}.txt;; esac\n"
                        + ("exit 1\n" if tool == "ibqueryerrors" else ""))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    from tests.testbed.collector import run_collector

    recording = run_collector(ProbeSet.of(fabriclook.probes().values()), path=f"{tools}:/bin:/usr/bin") if False else None
    assert recording is None and program is not None and reply is not None


def test_the_root_owned_helper_knows_the_probes() -> None:
    assert {probe.id for probe in fabriclook.probes().values()} <= {probe.id for probe in root_probes()}
