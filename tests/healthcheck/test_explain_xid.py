"""`muster explain xid` and `sxid`: one number whole, all of them, and an unknown one in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import muster


@pytest.mark.parametrize(("words", "said"), [
    (["xid", "79"], ["Xid 79  RC_GPU_HAS_FALLEN_OFF_THE_BUS", "reboot, by kernel-xid",
                     "RESTART_BM / CONTACT_SUPPORT", "five-bursts", "xid.yaml:"]),
    (["xid", "64"], ["volta       inspect: an ECC page retirement"]),
    (["xid", "13"], ["same-tpc", "owner       user"]),
    (["xid", "119"], ["once reset  over once the driver no longer asks for the reset (Xid 154)",
                      "muster: GPU 0000:3b:00.0 was reset"]),
    (["sxid", "20034"], ["once reset  over, when root writes to /dev/kmsg: muster: all GPUs were reset",
                         "SXid 20034", "reset, by kernel-sxid", "potentially fatal", "sxid.yaml:"]),
    (["xid", "48"], ["ends        reset, proven by a new boot; or by the driver wants no recovery any more",
                     "muster: GPU ... was reset", "a person's word that it was repaired (muster repaired)"]),
    (["xid", "63"], ["monitor, by kernel-xid-watch", "ends        reset, proven by"]),
    (["xid", "54"],
     ["ends        repair, proven by a person's word that it was repaired (muster repaired)\n"]),
    (["xid", "13"], ["ends        quiet 24h, proven by so many hours without another report"]),
    (["xid", "79"], ["ends        boot, proven by a new boot; or by"]),
    (["sxid", "20009"], ["ends        quiet 24h"]),
    (["kernel-xid"], ["check       kernel.xid", "with        nothing"]),
])
def test_a_number_and_a_rule_are_explained(words: list[str], said: list[str], tmp_path: Path) -> None:
    told = muster("explain", *words, home=tmp_path)
    assert told.returncode == 0 and all(word in told.stdout for word in said), told.stdout + told.stderr


def test_a_sites_own_table_is_named_with_what_it_overrides(tmp_path: Path) -> None:
    (tmp_path / "xid.yaml").write_text("xids:\n- {xid: 63, action: reset}\n")
    told = muster("explain", "xid", "63", "--rules", str(tmp_path), home=tmp_path)
    assert "reset, by kernel-xid" in told.stdout and "xid.yaml:2, which overrides " in told.stdout


def test_an_end_goes_with_its_action_and_a_site_may_set_another(tmp_path: Path) -> None:
    def ends(number: int, entry: str) -> str:
        (tmp_path / "xid.yaml").write_text(f"xids:\n- {{xid: {number}, {entry}}}\n")
        return str(json.loads(muster("explain", "xid", str(number), "--rules", str(tmp_path), "--format",
                                     "json", home=tmp_path).stdout)["ends"])

    assert ends(63, "why: ours") == "reset" and ends(63, "ends: quiet 7d") == "quiet 168h"
    assert ends(63, "action: app") == "quiet 24h"       # its own was that of a remapping
    assert ends(63, "action: app, ends: boot") == "boot" and ends(13, "action: inspect") == "repair"
    (tmp_path / "xid.yaml").write_text(
        "endings: {app: quiet 2h}\nxids:\n- {xid: 777, meaning: ours, action: app}\n")
    assert "ends        quiet 2h" in muster("explain", "xid", "777", "--rules", str(tmp_path),
                                            home=tmp_path).stdout


def test_a_sites_own_repeat_rule_is_named_with_what_it_overrides(tmp_path: Path) -> None:
    (tmp_path / "xid.yaml").write_text(
        "repeats:\n- {id: same-tpc, hours: 48}\n- {id: five-bursts, enabled: false}\n")
    told = muster("explain", "xid", "13", "--rules", str(tmp_path), home=tmp_path).stdout
    assert "repeated    2 bursts on one GPC and TPC of a GPU within 48 h: inspect (same-tpc: " in told
    assert "repeated    not judged, five-bursts is disabled (five-bursts: " in told
    assert "xid.yaml:2, which overrides " in told and "xid.yaml:3, which overrides " in told
    (same, five) = json.loads(muster("explain", "xid", "13", "--rules", str(tmp_path), "--format", "json",
                                     home=tmp_path).stdout)["repeats"]
    assert ((same["hours"], same["enabled"], same["line"], five["enabled"]) == (48, True, 2, False)
            and len(five["overrides"]) == 1)


def test_without_a_number_all_are_listed_as_text_and_as_json(tmp_path: Path) -> None:
    assert len(muster("explain", "xid", home=tmp_path).stdout.splitlines()) == 176
    listed = json.loads(muster("explain", "sxid", "--format", "json", home=tmp_path).stdout)
    assert (len(listed) == 399 and {"sxid", "kind", "meaning", "action", "owner", "rule", "file", "dated"}
            <= set(listed[0]))
    one = json.loads(muster("explain", "xid", "48", "--format", "json", home=tmp_path).stdout)
    assert one["ends"] == "reset" and "a new boot" in one["proofs"] and len(one["proofs"]) == 4
    assert (one["architectures"]["blackwell"]["action"] == "reset"
            and one["nvidia"] == ["WORKFLOW_XID_48", "WORKFLOW_XID_48"])


@pytest.mark.parametrize(("words", "said"), [
    (["xid", "777"], "xid 777 is not in the table of 2026-03-05; muster treats it as a case for support; the "
                     "nearest is 176"),
    (["sxid", "20039"],
     "a case for support, and watches it where the driver calls it non-fatal; the nearest is "
                        "20038"),
    (["xid", "many"], "xid: expected a number such as 1, got 'many'"),
    (["gpu-count", "79"], "a number goes after xid or sxid only"), (["xyd"], "no such rule"),
])
def test_what_is_not_there_is_one_line_and_exit_2(words: list[str], said: str, tmp_path: Path) -> None:
    told = muster("explain", *words, home=tmp_path)
    assert told.returncode == 2 and said in told.stderr and told.stderr.count("\n") == 1 and not told.stdout
