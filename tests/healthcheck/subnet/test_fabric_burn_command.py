"""`muster fabric burn` as a user types it, over saved outputs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.subnet.cabling import CablingPlan
from tests.command import muster
from tests.documents import validate
from tests.goldens import golden
from tests.testbed import fabricoutputs, fabrictables
from tests.testbed.ibfabric import two_tiers

NODES = "gpu[001-008]"


def written(made: CablingPlan, folder: Path) -> Path:
    """The outputs of a fabric of NDR cables, in a folder."""
    plan = replace(made, cables=tuple(replace(cable, speed="NDR") for cable in made.cables))
    fabrictables.write(fabricoutputs.write(plan, folder / "outputs"))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return written(two_tiers(8, 4, 2), tmp_path)


def test_every_link_is_loaded_by_pairs_with_their_names(home: Path) -> None:
    done = muster("fabric", "burn", NODES, "--from", "outputs", home=home)
    said = done.stdout.splitlines()
    assert done.returncode == 0 and said[0].startswith("subnet: 12 links, 8 host ports; ")
    assert said[-1] == "12 of 12 links loaded to 90% each way, by the forwarding tables"
    assert any(line.startswith("  gpu00") and line.endswith(" 400 Gb/s each way") for line in said)


def test_the_document_is_by_its_schema_and_as_it_was(home: Path) -> None:
    done = muster("fabric", "burn", NODES, "--from", "outputs", "--format", "json", home=home)
    document = json.loads(done.stdout)
    validate(document, "fabric-burn-1")
    golden("fabric-burn.json", json.dumps(document, indent=1) + "\n")


def test_the_table_has_what_a_launch_script_needs(home: Path) -> None:
    rows = list(csv.DictReader(muster("fabric", "burn", NODES, "--from", "outputs", "--format", "csv",
                                      home=home).stdout.splitlines()))
    first = [row for row in rows if row["round"] == "1"]
    assert len({row[end] for row in first for end in ("a", "b")}) == 2 * len(first)
    assert all(row["a"] == f"{row['a_host']}/{row['a_device']}" and row["b_device"] == "mlx5_0"
               and row["a_port"] == "1"
               and row["expected"] == "400.0" for row in rows)


def test_what_takes_no_part_is_named_as_not_covered(home: Path) -> None:
    done = muster("fabric", "burn", "gpu[001-007]", "--from", "outputs", home=home)
    assert (done.returncode == 3 and "not covered: " in done.stdout
            and "gpu008 mlx5_0 port 1 takes no part" in done.stdout)


def test_without_tables_only_an_expectation_is_planned(home: Path) -> None:
    (home / "outputs/dump_fts.txt").unlink()
    done = muster("fabric", "burn", NODES, "--from", "outputs", home=home)
    assert (done.returncode == 2 and "no output shows forwarding tables" in done.stderr
            and "--adaptive" in done.stderr)
    done = muster("fabric", "burn", NODES, "--from", "outputs", "--adaptive", home=home)
    assert (done.returncode == 0
            and "as expected of adaptive routing that spreads evenly: only counters prove it" in done.stdout)


def test_the_inventory_names_who_takes_part_and_only_who_is_in_service(home: Path) -> None:
    (home / "muster.yaml").write_text(
        "version: 1\nnodes:\n  gpu[001-008]: {}\n  gpu003: {lifecycle: {state: rma}}\n")
    done = muster("fabric", "burn", "--from", "outputs", home=home)
    assert done.returncode == 3 and "gpu003 mlx5_0 port 1 takes no part" in done.stdout, done.stderr


def test_a_device_s_name_that_a_shell_would_read_is_not_handed_on(home: Path) -> None:
    file = home / "outputs/ibnetdiscover.txt"
    file.write_text(file.read_text().replace("gpu001 mlx5_0", "gpu001 $(reboot)"))
    for name in ("iblinkinfo.txt", "ibnetdiscover-p.txt"):
        (home / "outputs" / name).unlink()
    done = muster("fabric", "burn", NODES, "--from", "outputs", "--format", "csv", home=home)
    assert done.returncode == 0 and "gpu001/" in done.stdout and "reboot" not in done.stdout


@pytest.mark.parametrize(("words", "said"), [
    (("--from", "outputs"), "found no inventory"),
    ((NODES, "--from", "none"), "is no folder of saved outputs"),
    ((NODES, "--from", "outputs", "--share", "0"), "--share"),
    ((NODES,), "--from"),
])
def test_what_cannot_be_done_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("fabric", "burn", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
