"""No text of a user is taken for the kernel's: every known fault, in every line of the kernel that quotes
someone, changes nothing."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.baseline.catalogue import CompiledEntry
from healthcheck.facts.xid import read_xids
from healthcheck.kernellog.model import CatalogueEntry
from healthcheck.kernellog.quoting import USER, blanked, blanked_all, messages
from healthcheck.kernellog.quotingpatterns import PATTERNS
from healthcheck.model.outcome import Severity
from tests.healthcheck import machine
from tests.healthcheck.baseline.labels import labelled
from tests.healthcheck.baseline.packaged import catalogue
from tests.healthcheck.kernellog.quotes import Format, formats

XIDS = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=7194, name=python3, DBE",
    "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 32 LTSSM Fault Up",
    "muster: all GPUs were reset",
)
PLAIN = "python3"


@cache
def faults() -> tuple[str, ...]:
    """The examples of all entries, and the reports that tables judge."""
    return (*(line for entry in catalogue().entries for line in entry.examples), *XIDS)


def convicted(line: str) -> CatalogueEntry | None:
    """The entry that knows a line, where it is worse than information."""
    entry = catalogue().find(line)
    return entry if entry is not None and entry.severity is not Severity.INFO else None


def forged(form: Format, texts: list[str]) -> list[tuple[str, str]]:
    """The lines that say something else of a user's text than of a plain name."""
    usual = convicted(form.filled(PLAIN))
    found = ((line, convicted(line)) for line in map(form.filled, texts))
    return [(line, entry.id) for line, entry in found if entry is not None and entry is not usual]


@pytest.mark.parametrize("form", formats(), ids=lambda form: form.name)
def test_a_fault_in_a_users_text_convicts_no_one(form: Format) -> None:
    texts = [*XIDS, *Random(form.name).sample(faults(), 3)]        # the slow tier takes all
    assert forged(form, texts) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_fault_in_any_users_text_convicts_anyone() -> None:
    assert len(formats()) >= 200 and len(faults()) >= 1500
    assert [one for form in formats() for one in forged(form, list(faults()))] == []


@pytest.mark.parametrize("form", formats(), ids=lambda form: form.name)
def test_no_xid_no_sxid_and_no_reset_is_read_from_a_users_text(form: Format) -> None:
    rows = "".join(f"6,{number},{number}000000,-;{_escaped(form.filled(text))}\n"
                   for number, text in enumerate(XIDS))
    own, _ = read_xids(machine.kernel_log(f"6,0,1000000,-;{_escaped(form.filled(PLAIN))}\n"))
    found, unread = read_xids(machine.kernel_log(rows))
    assert {event.number for event in found.events} <= {event.number for event in own.events}
    assert (found.switch_events, found.resets, unread) == ((), (), [])


def _escaped(text: str) -> str:
    return "".join(sign if 32 <= ord(sign) < 127 and sign != "\\" else f"\\x{ord(sign):02x}" for sign in text)


def test_what_is_not_quoted_is_found_every_one() -> None:
    wrong = [(entry.id, line) for entry in catalogue().entries for line in entry.examples
             if (found := catalogue().find(line)) is None
             or (found is not entry and found.id not in entry.yields)]
    assert wrong == []


@pytest.mark.parametrize("of_each", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_an_entry_knows_no_other_entrys_example_unless_one_yields_to_the_other(of_each: int) -> None:
    known = [CompiledEntry(entry) for entry in catalogue().entries]
    wrong = {(one.entry.id, entry.id) for entry in catalogue().entries
             for line in entry.examples[:of_each] for message in messages(line)
             for one in known if one.entry is not entry and one.possible(message.lower())
             and one.knows(message) and entry.id not in one.entry.yields
             and one.entry.id not in entry.yields}
    assert wrong == set()


def test_the_table_knows_what_each_format_prints() -> None:
    """Names of interfaces and servers cannot imitate a message, and some devices' names stand behind words
    that no fault begins with."""
    missed = [form.name for form in formats() for example in form.examples if USER not in blanked(example)
              and not any(place in form.format for place in ("{IF}", "{HOST}"))]
    assert set(missed) <= {"systemd", "x509-cert", "scsi-inquiry", "ata-model", "ata-mismatch", "sfp-module",
                           "mmc-card", "thunderbolt", "bluetooth-fw", "cifs-share", "lustre-name",
                           "oom-task-row"}


def test_a_users_part_is_blanked_to_its_last_possible_end() -> None:
    name = "x[1+2] error 4 in y[3+4]"
    line = f"a b[1][7]: segfault at 0 ip 0 sp 0 error 4 in {name}[401000+1000]"
    assert blanked(line) == f"{USER}[7]: segfault at 0 ip 0 sp 0 error 4 in {USER}[401000+1000]"


def test_lines_of_healthy_boots_lose_nothing_but_what_someone_chose() -> None:
    from tests.healthcheck.baseline.test_catalogue_kernel import HEALTHY

    changed = {line: blanked(line) for line in HEALTHY if blanked(line) != line}
    assert len(changed) < len(HEALTHY) / 10
    assert all(USER in made and made.partition(USER)[0] in line for line, made in changed.items())


def test_labelled_faults_are_known_though_they_quote() -> None:
    quoting = [line for event in labelled() if event.bad == "critical" for line in event.lines
               if " Comm: " in line or "comm " in line]
    assert len(quoting) > 5 and all(blanked(line).strip() for line in quoting)


@given(st.text(max_size=200), st.sampled_from(PATTERNS))
def test_any_text_is_blanked_in_bounded_time_and_many_as_one_by_one(
    text: str, form: tuple[str, str, str, str],
) -> None:
    lines = [text, text + form[1] + text, form[1] + text, text[:15] + form[1]]
    assert list(blanked_all(lines)) == [blanked(line) for line in lines]


@given(st.text(alphabet=st.sampled_from("x[]()':,./\\ 0179abNVRM\n"), max_size=40))
def test_a_line_feed_begins_no_message_but_a_drivers_own(name: str) -> None:
    text = f"foo: a name {name}\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert not any(message.startswith("NVRM") for message in messages(text))
    assert messages("NVRM: one\nNVRM: two") == ["NVRM: one", "NVRM: two"]
