"""`muster fabric check`, `diff`, `map` and `history` with --ufm as a user types them, over HTTPS to a
stand-in of a planned fabric."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan
from healthcheck.sweep.ufmrest import AUTH
from tests.command import muster
from tests.testbed.ibfabric import two_tiers
from tests.testbed.ufm import PASSWORD, TOKEN, USER, Ufm, serving

PLAN = two_tiers(8, 4, 2, uplinks=2)
NDR = replace(PLAN, cables=tuple(replace(cable, speed="NDR") for cable in PLAN.cables))


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Ufm]:
    with serving(Ufm(NDR), tmp_path) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    (place / "plan.csv").write_text(plancsv.write(NDR))
    (place / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-008]: {}\n")
    return place


def fabric(bed: Ufm, home: Path, *words: str,
           secret: str = f"{USER}:{PASSWORD}") -> subprocess.CompletedProcess[str]:
    return muster("fabric", *words, "--ufm", bed.url, "--ufm-tls", str(bed.authority), home=home,
                  **{AUTH: secret})


def findings(text: str) -> list[tuple[str, str, str]]:
    """Those of a document that are not unknown."""
    return [(one["rule"], one["place"]["name"], one["observed"])
            for one in json.loads(text)["findings"] if one["status"] != "unknown"]


def test_a_healthy_fabric_shows_only_what_ufm_does_not_measure(bed: Ufm, home: Path) -> None:
    done = fabric(bed, home, "check", "--plan", "plan.csv", "--format", "json")
    assert done.returncode == 3, done.stderr
    assert findings(done.stdout) == [] and json.loads(done.stdout)["findings"]


def test_a_link_that_the_subnet_manager_leaves_out_is_found_though_it_is_up(bed: Ufm, home: Path) -> None:
    bed.unhealthy[bed.name("leaf01", 5)] = ["FLAPPING", "MANUAL"]
    done = fabric(bed, home, "check", "--plan", "plan.csv", "--format", "json")
    assert findings(done.stdout) == [("link-state", "leaf01 port 5 to spine01 port 1",
                                      "the subnet manager lists it as unhealthy (FLAPPING, MANUAL)")]


def test_a_link_that_is_down_is_found_and_a_saved_look_says_the_same(bed: Ufm, home: Path) -> None:
    bed.down |= {bed.name("leaf01", 5), bed.ends[bed.name("leaf01", 5)]}
    live = fabric(bed, home, "check", "--plan", "plan.csv", "--save", "kept", "--format", "json")
    assert live.returncode == 1 and "down (polling)" in live.stdout
    assert sorted(path.name for path in (home / "kept").iterdir()) == [
        "snapshot.json", "ufm-links.json", "ufm-ports.json", "ufm-systems.json", "ufm-unhealthy.json"]
    again = muster("fabric", "check", "--from", "kept", "--plan", "plan.csv", "--format", "json", home=home)
    assert json.loads(again.stdout) == json.loads(live.stdout)


def test_hostile_names_and_words_are_shown_as_data(bed: Ufm, home: Path) -> None:
    for name in (bed.name("leaf01", 5), bed.ends[bed.name("leaf01", 1)]):
        bed.rows[name]["node_description"] = "\x1b[2J$(reboot)\n<b>:1"
    bed.unhealthy[bed.name("leaf02", 5)] = ["\x1b]0;x\x07", "A" * 10_000, "\udcff"]
    done = fabric(bed, home, "check", "--plan", "plan.csv")
    assert done.returncode in (1,
                               3) and "\x1b" not in done.stdout + done.stderr and "A" * 200 not in done.stdout


def test_what_ufm_did_not_give_is_said_again_when_the_look_is_read_again(bed: Ufm, home: Path) -> None:
    bed.faults = lambda method, path: 404 if path == "/app/unhealthy_ports" else None
    live = fabric(bed, home, "check", "--plan", "plan.csv", "--save", "kept")
    again = muster("fabric", "check", "--from", "kept", "--plan", "plan.csv", home=home)
    assert live.stdout == again.stdout and "it has no /ufmRest/app/unhealthy_ports (404)" in live.stdout


def test_diff_and_map_take_a_token(bed: Ufm, home: Path) -> None:
    same = fabric(bed, home, "diff", "--plan", "plan.csv", secret=TOKEN)
    assert same.returncode == 0, same.stdout + same.stderr
    other = CablingPlan(NDR.devices, tuple(
        replace(cable, b=replace(cable.b, port={"1": "2", "2": "1"}.get(cable.b.port, cable.b.port)))
        if cable.b.device == "leaf01" else cable
        for cable in NDR.cables))
    (home / "plan.csv").write_text(plancsv.write(other))
    swapped = fabric(bed, home, "diff", "--plan", "plan.csv", secret=TOKEN)
    assert swapped.returncode == 1 and "swap" in swapped.stdout
    drawn = fabric(bed, home, "map", "--plan", "plan.csv", "--format", "json", secret=TOKEN)
    assert drawn.returncode == 0 and json.loads(drawn.stdout)["schema"] == "muster.fabric.map/1"


def event(bed: Ufm, time: str, code: int, device: str, number: int) -> dict[str, Any]:
    name = bed.name(device, number)
    return {"id": 1, "event_type": str(code), "type": "Link", "timestamp": time, "object_path": "",
            "description": "",
            "object_name": f"Source {name}  TO Dest: {bed.ends[name]}"}


def test_history_asks_for_events_and_for_what_is_joined_and_keeps_both(bed: Ufm, home: Path) -> None:
    bed.events = [event(bed, "2026-11-20 10:00:00", 329, "leaf01", 5),
                  event(bed, "2026-11-20 10:00:04", 328, "leaf01", 5)]
    live = fabric(bed, home, "history", "--save", "kept")
    assert (live.returncode == 1
            and live.stdout.startswith("leaf01 port 5 to spine01 port 1: down 1 time, 4 s in all"))
    kept = muster("fabric", "history", "--from", "kept", "--events", "kept/ufm-events.json", home=home)
    assert (kept.returncode, kept.stdout) == (live.returncode, live.stdout)
    bed.seen.clear()
    mixed = fabric(bed, home, "history", "--from", "kept")
    assert mixed.stdout == live.stdout and {path for _, path, _ in bed.seen} == {"/app/events"}


def test_two_ufms_are_two_subnets(bed: Ufm, home: Path, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with serving(Ufm(PLAN), tmp_path / "second") as second:
        pins = f"sha256:{bed.fingerprint},sha256:{second.fingerprint}"
        done = muster("fabric", "check", "--ufm", bed.url, "--ufm", second.url, "--ufm-tls", pins, "--save",
                      "kept", home=home,
                      **{AUTH: f"{USER}:{PASSWORD}"})
    assert done.returncode in (1, 3), done.stderr
    ports = [one.rpartition(":")[2] for one in (bed.url, second.url)]
    assert {path.name for path in (home / "kept").iterdir()} == {f"127.0.0.1-{port}" for port in ports}


def test_a_refused_login_is_one_line_with_its_exit_code(bed: Ufm, home: Path) -> None:
    done = fabric(bed, home, "check", secret=f"{USER}:no")
    assert (done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
            and "it refuses the login (401)" in done.stderr)


@pytest.mark.parametrize(("words", "said"), [
    (("check", "gpu001", "--ufm", "https://h", "--ufm-auth", "f"), "give NODE or --ufm URL"),
    (("check", "--from", "x", "--ufm", "https://h"), "give NODE, --ufm URL, --lldp NODES, or --from FOLDER"),
    (("check", "--ufm", "https://h"), "--ufm needs a login"),
    (("check", "--ufm", "https://h", "--ufm-auth", "f"), "--ufm-auth f: No such file"),
    (("check", "--ufm-tls", "f"), "--ufm-tls goes with --ufm URL"),
    (("history",), "give --from FOLDER and --events FILE, or --ufm URL"),
    (("history", "--from", "x", "--events", "y", "--ufm", "https://h"), "say all"),
    (("history", "--from", "x", "--events", "y", "--save", "z"), "--save goes with --ufm"),
])
def test_what_does_not_go_together_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("fabric", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
