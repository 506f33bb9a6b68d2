"""Memory errors of every layout of EDAC, and the slot that EDAC's labels and dmidecode agree on.

The trees are written from Documentation/ABI/testing/sysfs-devices-edac and drivers/edac/edac_mc_sysfs.c, the
labels from edac_mc.c (the kernel's own), skx_common.c and sb_edac.c (Intel's by place) and ghes_edac.c (the
firmware's bank and device), dmidecode's from SMBIOS type 17.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.dimmslots import Slots
from healthcheck.facts.edac import BASE, EDAC, MemoryPart
from healthcheck.facts.firmware import DIMMS, Dimm
from healthcheck.facts.values import Unmeasured, readings
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULES, after, findings_of, verdict
from tests.testbed.collector import collect

GIB = 2**30
# A kernel of RHEL 7 (3.10): rows with channels, and DIMMs without counters.
OLD = {
    "mc0/ce_count": "7", "mc0/ue_count": "1", "mc0/ce_noinfo_count": "0",
    "mc0/csrow0/ce_count": "7", "mc0/csrow0/ue_count": "1",
    "mc0/csrow0/ch0_ce_count": "5", "mc0/csrow0/ch0_dimm_label": "P1-DIMMA1",
    "mc0/csrow0/ch1_ce_count": "2", "mc0/csrow0/ch1_dimm_label": "P1-DIMMB1",
    "mc0/dimm0/dimm_label": "P1-DIMMA1", "mc0/dimm1/dimm_label": "P1-DIMMB1",
}
NEW = {
    "mc0/ce_count": "5", "mc0/ue_count": "0", "mc0/ce_noinfo_count": "1",
    "mc0/dimm0/dimm_label": "CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "mc0/dimm0/dimm_ce_count": "3",
    "mc0/dimm0/dimm_ue_count": "0",
    "mc0/dimm2/dimm_label": "CPU_SrcID#0_MC#0_Chan#1_DIMM#0", "mc0/dimm2/dimm_ce_count": "1",
    "mc0/dimm2/dimm_ue_count": "0",
    "mc1/ce_count": "0", "mc1/ue_count": "0", "mc1/ce_noinfo_count": "0",
    "mc1/rank0/dimm_label": "mc#1csrow#0channel#0", "mc1/rank0/dimm_ce_count": "0",
    "mc1/rank0/dimm_ue_count": "0",
}


def seen(tree: Mapping[str, str | Outcome], dimms: str = "") -> Recording:
    """The healthy machine with this tree below EDAC's folder, and this output of dmidecode."""
    files = {f"{BASE}/{path}": FileCapture(text) if isinstance(text, Outcome)
             else FileCapture(Outcome.DONE, f"{text}\n")
             for path, text in tree.items()}
    meminfo = {"/proc/meminfo": FileCapture(Outcome.DONE, machine.MEMINFO)}
    held = machine.recording(memory_edac=Capture(Outcome.DONE, seconds=0.01, bytes=1,
                                                 files={**meminfo, **files}))
    said = Capture(Outcome.DONE, exit=0, seconds=0.01, bytes=len(dimms), text=dimms)
    return replace(held, captures={**held.captures, DIMMS.id: said})


def parts(tree: Mapping[str, str | Outcome], dimms: str = "") -> dict[str, MemoryPart]:
    found = build_fact(FACTS["memory_parts"], Captures(seen(tree, dimms)))
    return {part.place: part for part in found}


def counts(tree: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    return {part.name: (part.corrected, part.uncorrected) for part in parts(tree).values()}


def devices(*slots: tuple[str, str]) -> str:
    """dmidecode -q -t 17 of modules in these slots, each with its Bank Locator."""
    return "\n".join(
        f"Memory Device\n\tSize: 64 GB\n\tForm Factor: DIMM\n\tLocator: {slot}\n\tBank Locator: {bank}\n"
        "\tConfigured Memory Speed: 4800 MT/s\n" for slot, bank in slots)


def test_the_old_layout_names_dimms_by_the_labels_of_their_channels_and_the_row_by_both() -> None:
    assert counts(OLD) == {"DIMM P1-DIMMA1 (mc0/csrow0/ch0)": (5, 0),
                           "DIMM P1-DIMMB1 (mc0/csrow0/ch1)": (2, 0),
                           "DIMM P1-DIMMA1 or P1-DIMMB1 (mc0/csrow0)": (0, 1),
                           "memory controller mc0": (0, 0)}


def test_a_channel_without_a_label_costs_its_row_that_name_alone() -> None:
    without = {path: text for path, text in OLD.items() if path != "mc0/csrow0/ch1_dimm_label"}
    assert counts(without) == {"DIMM P1-DIMMA1 (mc0/csrow0/ch0)": (5, 0), "DIMM mc0/csrow0/ch1": (2, 0),
                               "DIMM P1-DIMMA1 (mc0/csrow0)": (0, 1), "memory controller mc0": (0, 0)}


def test_the_collector_finds_both_layouts_and_no_more_of_a_row_than_is_counted(tmp_path: Path) -> None:
    rest = {"mc0/csrow0/dev_type": "x8", "mc0/csrow0/uevent": "", "mc0/csrow0/edac_mode": "SECDED",
            "mc0/seconds_since_reset": "9"}
    (tmp_path / "run").mkdir()
    for path, content in {"/proc/meminfo": "MemTotal: 1 kB",
                          **{f"{BASE}/{path}": held for path, held in {**OLD, **rest}.items()}}.items():
        at = tmp_path / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(f"{content}\n")
    seen_by_it = collect([EDAC], tmp_path, seconds=20)
    found = {part.name: (part.corrected, part.uncorrected)
             for part in build_fact(FACTS["memory_parts"], Captures(seen_by_it))}
    assert found == counts(OLD)
    assert not [path for path in seen_by_it.captures[EDAC.id].files
                if path.endswith(("dev_type", "uevent", "edac_mode"))]


def test_a_row_without_channels_is_counted_by_itself() -> None:
    """As a kernel before 2.6.16 and some drivers show it, and the fixtures of exporters."""
    assert counts({"mc0/ce_count": "1", "mc0/ue_count": "5", "mc0/csrow0/ce_count": "3",
                   "mc0/csrow0/ue_count": "4"}) == {
                       "DIMM mc0/csrow0": (3, 4), "memory controller mc0": (0, 1)}


def test_rows_are_not_counted_where_dimms_are() -> None:
    both = {**NEW, "mc0/csrow0/ce_count": "4", "mc0/csrow0/ue_count": "0", "mc0/csrow0/ch0_ce_count": "3",
            "mc0/csrow0/ch0_dimm_label": "CPU_SrcID#0_MC#0_Chan#0_DIMM#0"}
    assert counts(both) == counts(NEW) == {
        "DIMM CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (mc0/dimm0)": (3, 0),
        "DIMM CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (mc0/dimm2)": (1, 0),
        "memory controller mc0": (1, 0), "DIMM mc#1csrow#0channel#0 (mc1/rank0)": (0, 0),
        "memory controller mc1": (0, 0)}


@given(at=st.sampled_from(sorted((tree, path) for tree in ("OLD", "NEW")
                                 for path in {"OLD": OLD, "NEW": NEW}[tree])),
       wrong=st.sampled_from([Outcome.DENIED, Outcome.CRASHED, Outcome.TIMEOUT, "many", "-1", "", None]))
def test_one_odd_file_costs_one_reading_and_no_other(at: tuple[str, str],
                                                     wrong: Outcome | str | None) -> None:
    tree = {"OLD": OLD, "NEW": NEW}[at[0]]
    damaged: dict[str, str | Outcome] = {path: text if path != at[1] else wrong for path, text in tree.items()
                                         if path != at[1] or wrong is not None}     # type: ignore[misc]
    before, after_it = parts(tree), parts(damaged)
    own = at[1].rpartition("/")[0]
    for place, part in before.items():
        of_it = place == own or place.startswith(f"{own}/ch") or own.startswith(place)
        if not of_it:
            assert readings(after_it[place]) == readings(part)


def test_both_rules_stay_judged_for_all_parts_but_the_odd_one() -> None:
    sick = {**NEW, "mc0/dimm0/dimm_ue_count": "?", "mc1/rank0/dimm_ue_count": "2", "mc1/ue_count": "2"}
    uncorrected = verdict("memory-ecc-uncorrected", seen(sick))
    assert (uncorrected.status, findings_of(uncorrected)) == (
        Status.FAIL, "DIMM mc#1csrow#0channel#0 (mc1/rank0): 2 uncorrected, expected at most 0")
    assert "mc0/dimm0" in uncorrected.reason and "mc0/dimm2" not in uncorrected.reason
    assert verdict("memory-ecc-corrected", after(seen(sick), 600), seen(sick)).status is Status.PASS


def test_errors_of_no_known_dimm_are_the_controllers_and_corrected_ones_too() -> None:
    later = {**NEW, "mc0/ce_noinfo_count": "12"}
    result = verdict("memory-ecc-corrected", after(seen(later), 600), seen(NEW))
    assert findings_of(result).startswith("memory controller mc0: 11 corrected in 10 min")


BY_LABEL = devices(("P1-DIMMA1", "P0_Node0_Channel0_Dimm0"), ("P1-DIMMB1", "P0_Node0_Channel1_Dimm0"))


FIRST_ONLY = {path: text for path, text in NEW.items() if path.startswith("mc0/")}


@pytest.mark.parametrize(("sick", "subject", "slot"), [
    ({**NEW, "mc0/dimm2/dimm_ue_count": "1", "mc0/ue_count": "1", "mc0/dimm2/dimm_label": "P1_DIMMB1"},
     "DIMM P1_DIMMB1 (mc0/dimm2)", "P1-DIMMB1"),
    (OLD, "DIMM P1-DIMMA1 or P1-DIMMB1 (mc0/csrow0)", "P1-DIMMA1 or P1-DIMMB1"),
    ({**FIRST_ONLY, "mc0/dimm0/dimm_ue_count": "1", "mc0/ue_count": "1"},
     "DIMM CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (mc0/dimm0)",
     "P1-DIMMA1 (found by its place in dmidecode's list)")])
def test_the_remedy_names_the_slots_that_both_lists_have_and_says_where_only_the_place_tells(
        sick: dict[str, str], subject: str, slot: str) -> None:
    (found,) = verdict("memory-ecc-uncorrected", seen(sick, BY_LABEL)).findings
    assert (found.subject,
            found.remedy) == (subject, f"Drain the node, power it off and replace the module in slot {slot}.")


@pytest.mark.parametrize("dimms", ["", "nonsense", devices(("P1-DIMMA1", "BANK 0"))])
def test_without_a_slot_the_rules_remedy_stays_and_the_subject_is_the_same(dimms: str) -> None:
    """The subject is what history and triage know a problem by: it must not hang on whether dmidecode ran."""
    sick = {**NEW, "mc0/dimm0/dimm_ue_count": "1", "mc0/ue_count": "1"}
    (found,) = verdict("memory-ecc-uncorrected", seen(sick, dimms)).findings
    assert (found.subject, found.remedy) == ("DIMM CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (mc0/dimm0)", "")


def test_a_rule_beside_a_job_starts_no_dmidecode_for_a_slots_name() -> None:
    assert set(RULES["memory-ecc-uncorrected"].probes) == {EDAC}


def sockets(form: str, channels: int) -> tuple[Dimm, ...]:
    """The modules of two sockets of four controllers with two channels each, one module a channel."""
    made = []
    for socket in range(2):
        for channel in range(8):
            bank = form.format(socket=socket, mc=channel // channels, channel=channel % channels)
            made.append(Dimm(f"CPU{socket}_{'ABCDEFGH'[channel]}1", 64 * GIB, 4800, bank))
    return tuple(made)


LABELS = {f"mc{4 * socket + mc}/dimm{4 * channel}": f"CPU_SrcID#{socket}_MC#{mc}_Chan#{channel}_DIMM#0"
          for socket in range(2) for mc in range(4) for channel in range(2)}


@pytest.mark.parametrize("modules", [sockets("NODE {socket} CHANNEL {channel} DIMM 0", 8),
                                     sockets("P{socket}_Node{mc}_Channel{channel}_Dimm0", 2)])
def test_channels_are_numbered_through_a_socket_or_by_controller(modules: tuple[Dimm, ...]) -> None:
    slots = Slots(LABELS, modules)
    assert [slots.of(place) for place in ("mc0/dimm0", "mc2/dimm4", "mc7/dimm4")] == [
        ("CPU0_A1", False), ("CPU0_F1", False), ("CPU1_H1", False)]


def test_a_module_that_edac_does_not_count_makes_no_place_certain() -> None:
    fewer = {place: label for place, label in LABELS.items() if place != "mc0/dimm0"}
    slots = Slots(fewer, sockets("NODE {socket} CHANNEL {channel} DIMM 0", 8))
    assert {slots.of(place) for place in fewer} == {("", False)}


def test_a_name_that_two_slots_have_names_none() -> None:
    assert Slots({"mc0/dimm0": "DIMM_A1"},
                 (Dimm("DIMM A1", GIB, 0, "P0"), Dimm("DIMM-A1", GIB, 0, "P1"))).of("mc0/dimm0") == (
                     "", False)


def test_firmwares_label_of_bank_and_device_is_a_slot() -> None:
    modules = (Dimm("DIMM A1", GIB, 0, "P0"), Dimm("DIMM A1", GIB, 0, "P1"))
    with_slots = Slots({"mc0/dimm1": "P1 DIMM A1"}, modules)
    assert with_slots.of("mc0/dimm1") == ("P1 DIMM A1", True)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_any_words_name_a_slot_of_the_list_or_none(label: str, slot: str, bank: str) -> None:
    assert Slots({"mc0/dimm0": label}, (Dimm(slot, GIB, 0, bank),)).of("mc0/dimm0")[0] in ("", slot)


def test_a_label_that_cannot_be_read_costs_the_name_and_nothing_else() -> None:
    part = parts({**NEW, "mc0/dimm0/dimm_label": Outcome.DENIED})["mc0/dimm0"]
    assert (part.name, part.corrected) == ("DIMM mc0/dimm0", 3)
    assert not isinstance(readings(part)["uncorrected"], Unmeasured)
