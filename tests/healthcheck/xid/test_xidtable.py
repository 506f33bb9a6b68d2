"""The tables of Xids and SXids: complete, dated, each number under one rule; a site's file overrides by
number, and mistakes are one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Owner
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.xid.xidtable import SERIOUS, WATCHED, Action, SxidReach, unlisted
from healthcheck.xid.xidtableload import load_xid_table
from inventory.errors import RulesError
from tests.healthcheck.xid import published

TABLE = load_xid_table([packaged()])
assert TABLE is not None

UNUSED = {*range(1, 8), 9, 10, 12, *range(14, 25), *range(26, 31), *range(33, 37), 42, 47, *range(49, 54),
          *range(55, 60), 73, 81, 87, 90, 91, *range(111, 119), 122, 124, 125, 138} - {14}
# By NVIDIA's catalogue, its immediate action; what it leaves open, muster's own choice (see the table's
# `why`).
BY_ACTION = {
    Action.APP: {8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 45, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83,
                 84, 85, 86, 88, 89, *range(96, 106), 108, *range(126, 136), 137, 139, 170, 174},
    Action.IGNORE: {14, 37, 38, 44, 66, 67, 93, 106, 107, 141, 152, 153, 162},
    Action.RESET: {46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158, 169, 171, 172,
                   175},
    Action.REBOOT: {79, 166, 167, 173},
    Action.MONITOR: {63, 92, 94, 121, 159, 160, 161, 163, 164, 165, 168, 176},
    Action.SUPPORT: {61, 65, 123, 142, 157} | UNUSED,
    Action.INSPECT: {54}, Action.UPDATE: {78}, Action.OBEY: {154}, Action.DECODE: {74, *range(144, 151)},
}


def test_every_number_from_1_to_176_is_in_the_table_under_its_action() -> None:
    assert set(TABLE.xids) == set(range(1, 177))
    found = {action: {number for number, entry in TABLE.xids.items() if entry.action is action}
             for action in BY_ACTION}
    assert found == BY_ACTION


def test_every_xid_that_nvidia_names_has_its_name_an_owner_and_an_action() -> None:
    assert {number: entry.mnemonic for number, entry in TABLE.xids.items()} == published.XIDS
    assert all(isinstance(entry.owner, Owner) and isinstance(entry.action, Action)
               for entry in TABLE.xids.values())


def test_a_number_without_a_published_meaning_reports_it_and_goes_to_support() -> None:
    for number in UNUSED:
        assert (TABLE.xid(number).meaning.startswith("no published meaning")
                and TABLE.xid(number).owner is Owner.VENDOR)


def test_every_sxid_of_the_driver_and_of_the_guide_is_in_the_table() -> None:
    guide = (published.GUIDE_NON_FATAL | published.GUIDE_POTENTIALLY_FATAL | published.GUIDE_ALWAYS_FATAL
             | published.GUIDE_OTHERS)
    assert len(guide) == 93 and guide <= published.SXIDS_OF_THE_DRIVER
    assert set(TABLE.sxids) == published.SXIDS_OF_THE_DRIVER
    assert {number for number, entry in TABLE.sxids.items() if entry.gpud} == guide


def test_an_sxid_of_the_guide_is_as_bad_as_the_guide_says() -> None:
    def kinds(numbers: set[int]) -> set[SxidReach]:
        return {TABLE.sxids[number].kind for number in numbers}
    assert kinds(published.GUIDE_ALWAYS_FATAL) == {SxidReach.ALWAYS_FATAL}
    assert kinds(published.GUIDE_POTENTIALLY_FATAL) == {SxidReach.POTENTIALLY_FATAL}
    assert kinds(published.GUIDE_NON_FATAL) == {SxidReach.NON_FATAL, SxidReach.CORRECTED}
    assert TABLE.sxids[10003].kind is SxidReach.ALWAYS_FATAL     # "fatal to the fabric/system"


@pytest.mark.parametrize(("fatal", "action"), [
    (True, Action.SUPPORT), (None, Action.SUPPORT), (False, Action.MONITOR),
])
def test_what_no_table_holds_is_judged_by_the_drivers_word(fatal: bool | None, action: Action) -> None:
    assert unlisted(fatal) is action


def test_every_entry_has_a_meaning_a_remedy_and_a_place() -> None:
    for entry in TABLE.xids.values():
        assert entry.meaning and entry.file.endswith("xid.yaml") and entry.line
        assert (entry.remedy or TABLE.remedy(entry.action)
                or entry.action in (Action.IGNORE, Action.DECODE, Action.OBEY)), entry.number
    for switch in TABLE.sxids.values():
        assert switch.action in SERIOUS | WATCHED and (switch.remedy or TABLE.remedy(switch.action))


def test_a_job_owns_what_a_job_causes_and_the_vendor_what_goes_to_support() -> None:
    assert {TABLE.xid(number).owner for number in (13, 31, 43, 45)} == {Owner.USER}
    assert (TABLE.xid(61).owner is Owner.VENDOR and TABLE.xid(79).owner is Owner.OPERATOR
            and TABLE.xid(54).owner is Owner.DATACENTRE)


def test_a_number_that_no_table_holds_is_a_case_for_support_and_never_ignored() -> None:
    entry = TABLE.xid(999)
    assert (entry.action is Action.SUPPORT and not entry.listed
            and entry.meaning == f"not in the table of {TABLE.dated}")


@pytest.mark.parametrize(("number", "architecture", "action", "word"), [
    (64, "hopper", Action.RESET, "row remapping"), (64, "volta", Action.INSPECT, "page retirement"),
    (64, "", Action.RESET, "row remapping"), (63, "turing", Action.MONITOR, "page retirement"),
    (63, "ampere", Action.MONITOR, "row remapping"), (74, "hopper", Action.DECODE, "registers"),
    (74, "blackwell", Action.SUPPORT, "144 to 150"), (149, "blackwell", Action.DECODE, "NVLink 5"),
    (149, "hopper", Action.SUPPORT, "not expected"), (48, "blackwell", Action.RESET, "171"),
    (48, "ampere", Action.RESET, "double-bit"),
])
def test_a_number_means_what_it_means_on_its_architecture(
    number: int, architecture: str, action: Action, word: str,
) -> None:
    entry = TABLE.xid(number, architecture)
    assert entry.action is action and word in entry.meaning


def test_an_override_of_the_action_does_not_keep_the_old_remedy_and_one_of_the_meaning_does() -> None:
    assert TABLE.xid(74, "blackwell").remedy == ""
    assert TABLE.xid(48, "hopper").remedy == TABLE.xid(48).remedy


def site(tmp_path: Path, **files: str) -> list[Path]:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return [packaged(), tmp_path]


def test_a_site_overrides_one_key_of_one_number_and_keeps_the_rest(tmp_path: Path) -> None:
    table = load_xid_table(site(
        tmp_path, xid="xids:\n- {xid: 63, action: reset}\n- {xid: 200, action: monitor, meaning: new}\n"))
    assert table is not None
    entry = table.xid(63)
    assert (entry.action is Action.RESET and entry.meaning == TABLE.xid(63).meaning
            and entry.file == str(tmp_path / "xid.yaml"))
    assert entry.overridden == (str(packaged() / "xid.yaml"),)
    assert table.xid(200).listed and table.xid(64) == TABLE.xid(64) and table.dated == TABLE.dated


def test_a_site_overrides_a_repeat_rule_by_id_and_an_sxid_by_number(tmp_path: Path) -> None:
    table = load_xid_table(site(
        tmp_path, sxid="sxids:\n- {sxid: 20009, action: inspect}\n",
        xid="repeats:\n- {id: five-bursts, count: 9, hours: 12, action: inspect, why: ours}\n",
    ))
    assert table is not None
    assert table.repeats["five-bursts"].count == 9 and table.repeats["same-tpc"] == TABLE.repeats["same-tpc"]
    assert table.sxids[20009].action is Action.INSPECT and table.sxids[20009].kind is SxidReach.NON_FATAL


def test_a_site_changes_one_window_of_a_repeat_rule_adds_one_and_disables_one(tmp_path: Path) -> None:
    text = ("repeats:\n- {id: same-tpc, hours: 48}\n- {id: ours, xids: 63, count: 3, hours: 1, action: "
            "monitor, why: because}\n"
            "- {id: five-bursts, enabled: false}\n")
    table = load_xid_table(site(tmp_path, xid=text))
    assert table is not None and list(table.repeats) == [*TABLE.repeats, "ours"]
    mine, theirs = str(tmp_path / "xid.yaml"), str(packaged() / "xid.yaml")
    changed, old = table.repeats["same-tpc"], TABLE.repeats["same-tpc"]
    assert (changed == replace(old, hours=48, file=mine, line=2, overridden=(theirs,))
            and (old.hours, old.file) == (24, theirs))
    assert table.repeats["mmu-same-gpu"] == TABLE.repeats["mmu-same-gpu"]
    added, gone = table.repeats["ours"], table.repeats["five-bursts"]
    assert (added.xids, added.enabled, added.overridden, added.line) == ({63}, True, (), 3)
    assert gone == replace(TABLE.repeats["five-bursts"], enabled=False, file=mine, line=4,
                           overridden=(theirs,))


def test_a_repeat_rule_is_laid_over_by_each_folder_in_turn(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, text in ((one, "enabled: false, count: 3"), (two, "enabled: true")):
        folder.mkdir()
        (folder / "xid.yaml").write_text(f"repeats:\n- {{id: same-tpc, {text}}}\n")
    table = load_xid_table([packaged(), one, two])
    assert table is not None
    repeat = table.repeats["same-tpc"]
    assert (repeat.enabled, repeat.count, repeat.overridden) == (
        True, 3, (str(packaged() / "xid.yaml"), str(one / "xid.yaml")))


@pytest.mark.parametrize(("action", "remedy", "owner"),
                         [("replace", "", Owner.VENDOR), ("app", "", Owner.USER)])
def test_another_action_takes_its_own_owner_and_leaves_the_old_remedy_behind(
    tmp_path: Path, action: str, remedy: str, owner: Owner,
) -> None:
    table = load_xid_table(site(tmp_path, xid=f"xids:\n- {{xid: 119, action: {action}}}\nrepeats:\n- {{id: "
                                              f"same-tpc, action: {action}}}\n"))
    assert table is not None and TABLE.xid(119).remedy
    assert [(said.remedy, said.owner) for said in (table.xid(119), table.repeats["same-tpc"])] == [
        (remedy, owner)] * 2
    same = load_xid_table(site(tmp_path, xid="xids:\n- {xid: 119, action: reset}\n"))
    assert same is not None and same.xid(119).remedy == TABLE.xid(119).remedy


def test_the_bytes_of_both_tables_are_in_the_digest_of_the_rules(tmp_path: Path) -> None:
    plain = load_ruleset([packaged(), tmp_path]).digest
    one = load_ruleset(site(tmp_path, xid="xids: []\n")).digest
    two = load_ruleset(site(tmp_path, sxid="sxids: []\n")).digest
    assert len({plain, one, two}) == 3


MISTAKES = [
    ("xids:\n- {xid: 63, action: rset}\n", "xid.yaml:2:21: xid 63: action: expected one of ignore, app,"),
    ("xids:\n- {xid: 63, action: rset}\n", "did you mean 'reset'?"),
    ("xids:\n- {xid: 63, actoin: reset}\n",
     "xid.yaml:2:13: xid: unknown key 'actoin'; did you mean 'action'?"),
    ("xids:\n- {xid: many, action: reset}\n",
     "xid: expected numbers up to 99999, such as 48 or '70-72, 85', got 'many'"),
    ("xids:\n- {xid: 9-1, action: reset}\n", "xid: expected numbers"),
    ("xids:\n- {xid: true, action: reset}\n", "xid: expected numbers"),
    ("xids:\n- {action: reset}\n", "xid: xid: is missing: expected numbers"),
    ("xids:\n- {xid: 500, meaning: new}\n",
     "xid 500: action: is missing: expected it for a number that no earlier file gives"),
    ("xids:\n- {xid: 63, owner: me}\n",
     "xid 63: owner: expected one of user, operator, network, datacentre, vendor"),
    ("xids:\n- {xid: 63, nvidia: RESET}\n", "xid 63: nvidia: expected a list of words, got 'RESET'"),
    ("xids:\n- {xid: 63, architectures: {hoper: {}}}\n", "unknown key 'hoper'; did you mean 'hopper'?"),
    ("xids:\n- {xid: 63, architectures: {hopper: {action: 1}}}\n", "xid 63: hopper: action: expected one of"),
    ("xids:\n- {xid: 63, action: app}\n- {xid: 60-65, action: app}\n",
     "xid 63 is given twice; the first is at line 2"),
    ("xids: 3\n", "xid.yaml:1:7: xid.yaml: xids: expected a list, got 3"),
    ("- 3\n", "xid.yaml: expected a map, got a list"),
    ("dated: tomorrow\n", "dated: expected a date such as 2025-10-29, got 'tomorrow'"),
    ("remedies: {rset: x}\n", "remedies: no such action: 'rset'"),
    ("remedies: {reset: 3}\n", "remedies: reset: expected text, got 3"),
    ("repeats:\n- {id: x, count: 1, hours: 2, action: app, why: y}\n",
     "repeats: x: count: expected a whole number from 2 to 10000, got 1"),
    ("repeats:\n- {id: x, count: 2, hours: 0, action: app, why: y}\n",
     "repeats: x: hours: expected a number from 0.01 to 8784, got 0"),
    ("repeats:\n- {id: x, count: 2, hours: 2, same: card, action: app, why: y}\n",
     "same: expected gpu or tpc, got 'card'"),
    ("repeats:\n- {id: x, hours: 2, action: app, why: y}\n",
     "repeats: x: count: is missing: expected a whole number from 2 to 10000"),
    ("repeats:\n- {id: same-tpc, enabled: perhaps}\n",
     "xid.yaml:2:27: repeats: same-tpc: enabled: expected true or false, got 'perhaps'"),
    ("repeats:\n- {id: same-tpc, hous: 2}\n", "repeats: unknown key 'hous'; did you mean 'hours'?"),
    ("repeats:\n- {id: same-tpc, hours: 2}\n- {id: same-tpc, count: 3}\n",
     "xid.yaml:3:3: repeats: same-tpc is given twice; the first is at line 2"),
    ("registers:\n- {register: 7, bits: 1, action: app, meaning: y}\n",
     "registers: register: expected a whole number from 0 to 6, got 7"),
    ("registers:\n- {register: 1, bits: 32, action: app, meaning: y}\n", "bits: expected numbers up to 31"),
    ("registers:\n- {register: 1, bits: 3, action: app, meaning: y, alone: maybe}\n",
     "alone: expected true or false, got 'maybe'"),
    ("nvlink5:\n- {xid: 144, units: [X], action: app, meaning: y, status: [x]}\n",
     "status: expected whole numbers from 0 to 0xffffffff"),
    ("recoveries:\n- {code: 1, says: x, action: app}\n", "recoveries: remedy: is missing: expected text"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place_and_what_was_expected(
    tmp_path: Path, text: str, words: str,
) -> None:
    with pytest.raises(RulesError) as caught:
        load_xid_table(site(tmp_path, xid=text))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_new_sxid_needs_a_kind(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="sxid 5: kind: is missing: expected one of always_fatal"):
        load_xid_table(site(tmp_path, sxid="sxids:\n- {sxid: 5, action: monitor, meaning: x}\n"))


def test_a_folder_without_tables_has_none(tmp_path: Path) -> None:
    assert load_xid_table([tmp_path]) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.text("abc-,:019 ", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["xid", "action", "meaning", "architectures", "hopper", "nvidia", "bits", "register", "units",
         "status", "count", "id", "hours", "why"],
    ), inner, max_size=4), max_leaves=8,
)


@given(top=st.dictionaries(st.sampled_from(["dated", "sources", "remedies", "xids", "repeats", "registers",
                                            "nvlink5", "recoveries", "x"]), VALUES))
def test_any_document_is_a_table_or_one_line(
    top: dict[str, object], tmp_path_factory: pytest.TempPathFactory,
) -> None:
    import json

    folder = tmp_path_factory.mktemp("rules")
    try:
        load_xid_table(site(folder, xid=json.dumps(top)))
    except RulesError as error:
        assert "\n" not in str(error)
