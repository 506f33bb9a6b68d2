"""`muster fabric burn --results`: which links measured rates accuse, and what they and counters prove."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.burnresults import read
from healthcheck.subnet.model import DeviceKind
from healthcheck.sweep.fabricoutput import saved
from inventory.errors import UsageError
from tests.command import muster
from tests.documents import validate
from tests.goldens import golden
from tests.healthcheck.subnet.test_fabric_burn_command import written
from tests.testbed.ibfabric import two_tiers

BURN = ("fabric", "burn", "gpu[001-016]", "--from", "outputs")
Rows = list[dict[str, str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return written(two_tiers(16, 4, 4), tmp_path)


def planned(home: Path, *more: str) -> Rows:
    return list(csv.DictReader(muster(*BURN, *more, "--format", "csv", home=home).stdout.splitlines()))


def write(home: Path, rows: Rows, slow: str = "", rate: float = 390) -> None:
    lines = [f"{row['round']},{row['a']},{row['b']},{100 if slow in (row['a'], row['b']) else rate},10"
             for row in rows]
    (home / "rates.csv").write_text("\n".join(["round,a,b,gigabits,seconds", *lines, ""]))


def test_full_rates_by_tables_prove_every_link(home: Path) -> None:
    write(home, planned(home))
    done = muster(*BURN, "--results", "rates.csv", home=home)
    assert (done.returncode, done.stdout) == (0, "subnet: 32 of 32 links proven to carry 90% each way\n")


def test_a_slow_host_is_told_apart_by_the_round_that_is_proposed(home: Path) -> None:
    rows = planned(home)
    for _ in range(4):
        write(home, rows, "gpu003/mlx5_0")
        more = planned(home, "--results", "rates.csv")
        if not more:
            break
        rows += more
    done = muster(*BURN, "--results", "rates.csv", "--format", "json", home=home)
    document = json.loads(done.stdout)
    validate(document, "fabric-burn-1")
    assert (done.returncode == 1 and len(document["result"]["slow"]) == 1
            and "gpu003 mlx5_0" in document["result"]["slow"][0]["link"])
    golden("fabric-burn-results.json", json.dumps(document, indent=1) + "\n")


def test_a_pair_that_was_not_measured_is_never_proven(home: Path) -> None:
    write(home, planned(home)[1:])
    done = muster(*BURN, "--results", "rates.csv", home=home)
    assert (done.returncode == 3 and "not measured: round 1: " in done.stdout
            and "was loaded to 0%" in done.stdout)


def test_of_adaptive_routing_only_counters_prove_coverage(home: Path) -> None:
    write(home, planned(home, "--adaptive"))
    done = muster(*BURN, "--adaptive", "--results", "rates.csv", home=home)
    assert (done.returncode == 3
            and "only counters prove what adaptive routing did: give --since" in done.stdout)
    (home / "outputs" / "ibqueryerrors-data.txt").unlink()
    shutil.copytree(home / "outputs", home / "after")
    done = muster("fabric", "burn", "gpu[001-016]", "--from", "after", "--since", "outputs", "--results",
                  "rates.csv", home=home)
    assert done.returncode == 3 and "was not read before and after" in done.stdout


def counted(folder: Path, sent: dict[str, int], host: int) -> None:
    """Adds what each port of a switch counted, and each host's port."""
    (output,) = saved(folder)
    found = []
    for port in output.subnet().ports():
        kind = output.subnet().devices[port.end.guid].kind
        value = sent.get(port.end.guid, host if kind is DeviceKind.ADAPTER else sent[""])
        found.append(
            f"   GUID 0x{port.end.guid} port {port.end.number}:  [PortXmitData == {value} (1.0 GB)]\n")
    (folder / "ibqueryerrors-data.txt").write_text("".join(found)
                                                   + "## Summary: 1 nodes checked, 0 bad nodes found\n"
                                                   "##          1 ports checked, 0 ports have errors beyond "
                                                   "threshold\n")


def test_counters_prove_adaptive_coverage_and_contradict_tables(home: Path) -> None:
    rows = planned(home, "--adaptive")
    shutil.copytree(home / "outputs", home / "after")
    full = int(len({row["round"] for row in rows}) * 10 * 390e9 / 32)
    counted(home / "outputs", {"": 0}, 0)
    counted(home / "after", {"": full}, full)
    words = ("fabric", "burn", "gpu[001-016]", "--from", "after", "--since", "outputs",
             "--results", "rates.csv")
    write(home, rows)
    done = muster(*words, "--adaptive", home=home)
    assert "32 of 32 links proven" in done.stdout and done.returncode == 0, done.stdout
    write(home, planned(home))
    counted(home / "after", {"": 1}, full)
    done = muster(*words, home=home)
    assert done.returncode == 3 and "counted 0% of what the tables say it sent" in done.stdout


@pytest.mark.parametrize(("text", "said"), [
    ("round,a,b\n", "rates.csv:1: expected one column gigabits"),
    ("round,a,b,gigabits\n1,x,gpu001/mlx5_0,3\n", "rates.csv:2: 'x' is no port that takes part"),
    ("round,a,b,gigabits\n0,x,y,3\n", "rates.csv:2: round: '0', expected a number from 1"),
    ("round,a,b,gigabits\n1,x,y,nan\n", "rates.csv:2: gigabits: 'nan', expected a number from 0"),
    ("round,a,b,gigabits\n1,x,y,\n", "rates.csv:2: gigabits: empty"),
    ("round,a,b,gigabits\n1,gpu001/mlx5_0,gpu001/mlx5_0,3\n", "rates.csv:2: gpu001/mlx5_0 is in two pairs"),
])
def test_a_wrong_table_is_one_line(home: Path, text: str, said: str) -> None:
    (home / "rates.csv").write_text(text)
    done = muster(*BURN, "--results", "rates.csv", home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


@given(st.text() | st.text().map(lambda tail: f"round,a,b,gigabits\n{tail}"))
def test_any_text_is_rows_or_one_clear_error(text: str) -> None:
    try:
        rows = read(text, "r.csv")
    except UsageError as error:
        assert str(error).startswith("r.csv:") and str(error).isprintable()
    else:
        assert all(row.gbps >= 0 and row.round > 0 for row in rows)
