"""`muster fabric disable` and `enable` as a user types them, over saved outputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.store import portdisables
from healthcheck.store.file import opened
from healthcheck.store.portdisables import PortRecord, open_ports
from healthcheck.subnet.cabling import PlannedEnd
from healthcheck.subnet.model import FabricEnd
from tests.command import muster
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import net_ports, two_tiers

PLAN = two_tiers(8, 4, 2, uplinks=2)
NDR = replace(PLAN, cables=tuple(replace(cable, speed="NDR") for cable in PLAN.cables))
SICK = PlannedEnd("leaf01", "5")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fabricoutputs.write(NDR, tmp_path / "before")
    fabricoutputs.write(NDR, tmp_path / "after", {(SICK, "SymbolErrorCounter"): 5000,
                                                  (PlannedEnd("leaf01", "1"), "SymbolErrorCounter"): 5000})
    (tmp_path / "before" / "snapshot.json").write_text(
        '{"schema": "muster.fabric.snapshot/1", "time": 1000.0}')
    (tmp_path / "after" / "snapshot.json").write_text(
        '{"schema": "muster.fabric.snapshot/1", "time": 1060.0}')
    return tmp_path


def recorded(home: Path) -> str:
    """A port that was disabled and read back; by GUID and number."""
    end = FabricEnd(net_ports(NDR)[SICK].node[2:], 5)
    with opened(home / "state", make=True) as store:
        number = portdisables.begin(store, PortRecord("", end, "leaf01 port 5 to spine01 port 1",
                                                      FabricEnd("0" * 15 + "1", 1), "bit errors", "an uplink",
                                                      "ibportstate on gpu001"), "ops", 1000.0, (4, 0.0))
        assert isinstance(number, int)
        portdisables.asking(store, number, 1000.0)
        portdisables.held(store, number, "disabled", 1001.0)
    return f"{end.guid}/{end.number}"


def test_proposed_ports_come_with_peer_reason_and_loss_and_a_last_link_is_refused(home: Path) -> None:
    done = muster("fabric", "disable", "--proposed", "--from", "after", "--since", "before", home=home)
    assert (done.returncode == 1
            and "leaf01 port 5 to spine01 port 1: would be disabled\n  why: link-errors: 5000 "
                "symbol errors" in done.stdout)
    assert "lost: an uplink of leaf01: 3 of its 4 working uplinks are left (1200 of 1600 Gb/s)" in done.stdout
    assert "leaf01 port 1 to gpu001 mlx5_0: REFUSED: it is the last link of gpu001 mlx5_0" in done.stdout
    assert (done.stdout.endswith(
        "Nothing changed. To do it: look with --by NODE or --ufm URL, and --apply\n")
            and not (home / "state" / "muster.db").exists())


def test_a_port_is_known_by_what_is_printed_beside_it(home: Path) -> None:
    done = muster("fabric", "disable", "leaf01/1/3/1", "--from", "after", home=home)
    assert (done.returncode == 0
            and done.stdout.startswith("leaf01 port 5 to spine01 port 1: would be disabled")), done
    assert "no such port was seen there" in muster("fabric", "disable", "leaf01/1/3/9", "--from", "after",
                                                   home=home).stderr


def test_the_site_s_policy_says_how_many_uplinks_a_leaf_keeps_and_how_many_ports_go(home: Path) -> None:
    (home / "rules").mkdir()
    words = ("fabric", "disable", "leaf01/5", "leaf02/5", "--from", "after", "--rules", "rules")
    (home / "rules" / "policy.yaml").write_text("ports: {uplinks: 4}\n")
    assert "leaf01 would keep 3 uplinks, and the policy asks for 4" in muster(*words, home=home).stdout
    (home / "rules" / "policy.yaml").write_text("ports: {number: 1}\n")
    done = muster(*words, home=home)
    assert (done.returncode == 1 and done.stdout.count("would be disabled") == 2
            and "not now: the policy has room for 1" in done.stdout)
    (home / "rules" / "policy.yaml").write_text("ports: {numbers: 1}\n")
    wrong = muster(*words, home=home)
    assert wrong.returncode == 2 and "policy.yaml:1:" in wrong.stderr and "numbers" in wrong.stderr


def test_what_is_disabled_is_listed_and_only_that_can_be_enabled(home: Path) -> None:
    assert muster("fabric", "disable", home=home).stdout == "no port is disabled by muster\n"
    key = recorded(home)
    listed = muster("fabric", "disable", home=home)
    assert (listed.returncode == 0
            and listed.stdout.startswith(f"{key}  leaf01 port 5 to spine01 port 1: disabled since "))
    assert muster("fabric", "enable", key,
                  home=home).stdout.startswith(f"{key}  leaf01 port 5 to spine01 port 1: would be enabled")
    strange = muster("fabric", "enable", "leaf01/6", home=home)
    assert strange.returncode == 2 and "leaf01/6: muster has not disabled it" in strange.stderr


def test_where_the_node_cannot_be_asked_nothing_is_written_down(home: Path) -> None:
    (home / "muster.yaml").write_text("version: 1\nnodes:\n  gpu001: {address: 127.0.0.1, port: 1}\n")
    done = muster("fabric", "disable", "leaf01/5", "--by", "gpu001", "--reason", "x", "--apply", home=home)
    assert done.returncode == 2 and "gpu001: connect" in done.stderr
    key = recorded(home)
    back = muster("fabric", "enable", key, "--by", "gpu001", "--apply", home=home)
    assert back.returncode == 2 and "gpu001: connect" in back.stderr
    with opened(home / "state") as store:
        assert [row.undo for row in open_ports(store)] == [None]


@pytest.mark.parametrize("command", ["disable", "enable"])
def test_who_waits_is_given_the_command_that_acts_on_ports(command: str, home: Path) -> None:
    (home / "muster.yaml").write_text("version: 1\nnodes:\n  gpu001: {address: 127.0.0.1, port: 1}\n")
    words = ("fabric", command, "leaf01/5", "--by", "gpu001", "--reason", "x", "--apply")
    assert muster(*words, home=home).returncode == 2
    assert json.loads((home / "state" / "fabric.lock").read_text())["command"] == f"fabric {command} --apply"


@pytest.mark.parametrize(("words", "said"), [
    (("disable", "--apply"), "give PORT or --proposed"),
    (("disable", "leaf01/5"), "give --by NODE, --ufm URL, or --from FOLDER"),
    (("disable", "leaf01/5", "--proposed", "--from", "after"), "and not both"),
    (("disable", "leaf01/5", "--from", "after", "--apply"), "--apply needs --by NODE or --ufm URL"),
    (("disable", "leaf01/5", "--by", "gpu001", "--apply"), "--apply needs --reason"),
    (("disable", "--proposed", "--by", "gpu001", "--since", "before"), "--since goes with --from FOLDER"),
    (("disable", "leaf01", "--from", "after"), "expected SWITCH/PORT"),
    (("enable", "all", "--apply"), "--apply needs --by NODE or --ufm URL"),
])
def test_what_cannot_be_done_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("fabric", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
