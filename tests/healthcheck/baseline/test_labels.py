"""The labelled fault events are of their form, many enough in each class to measure recall by, and each says
where it comes from."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.healthcheck.baseline.labels import BAD, FAULTS, Labelled, labelled

FEWEST = 150
FEWEST_OF_A_CLASS = 3
EVENTS = labelled()
SOURCE = re.compile(r"https://\S+|(kernel|lustre|systemd|kexec-tools) \S+")
PREFIX = re.compile(r"^(\[[^\]]*\](\[ T\d+\])? |\w{3} [ \d]\d [\d:]+ node\d\d kernel: (\[[ \d.]+\] "
                    r")?|\S+\+00:00 node\d\d kernel: \[[ \d.]+\] "
                    r"|kern  :\w+ *: \[[ \d.]+\] |\d,\d+,\d+,-;)")
PERSONAL = re.compile(r"[\w.]+@\w+\.(com|org|net)|/home/\w+|/Users/\w+")
ADDRESS = re.compile(r"(?<![\d.])(?!0\.)(?!192\.0\.2\.)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?=@|:)")


def said(event: Labelled) -> str:
    """What the event says, without the times and hosts that a log puts before it."""
    return "\n".join(PREFIX.sub("", line).strip() for line in event.lines)


def test_there_are_enough_events_to_measure_recall_by() -> None:
    assert len(EVENTS) >= FEWEST


def test_every_class_has_at_least_three_events() -> None:
    counts = Counter(event.group for event in EVENTS)
    assert {group: count for group, count in counts.items() if count < FEWEST_OF_A_CLASS} == {}


def test_every_event_names_its_source() -> None:
    assert [event.where for event in EVENTS if not SOURCE.match(event.source)] == []


def test_no_event_is_there_twice() -> None:
    counts = Counter(said(event) for event in EVENTS)
    assert [text for text, count in counts.items() if count > 1] == []


def test_every_event_has_its_time_as_a_log_prints_it() -> None:
    assert [event.where for event in EVENTS if not PREFIX.match(event.lines[0])] == []


def test_no_event_has_a_line_without_text() -> None:
    assert [event.where for event in EVENTS
            if not all(PREFIX.sub("", line).strip() for line in event.lines)] == []


def test_no_event_names_a_person_or_an_address_that_is_not_for_documents() -> None:
    assert [event.where for event in EVENTS if PERSONAL.search("\n".join(event.lines))
            or ADDRESS.search("\n".join(event.lines))] == []


def test_the_printed_forms_vary() -> None:
    forms = Counter(re.sub(r"[A-Z][a-z]{2}|[\d.]+", "_", PREFIX.match(event.lines[0])[0])[:6]
                    for event in EVENTS)  # type: ignore[index]
    assert len(forms) >= 5 and max(forms.values()) < len(EVENTS) * 0.6


@pytest.mark.parametrize(("text", "wanted"), [
    ("events: []\n", "expected the keys class and events"),
    ("class: other\nevents: []\n", "class: expected xid, the name of the file, not other"),
    ("class: xid\nevents:\n  - bad: critical\n", "event 1: expected the keys bad, lines, source, why"),
    ("class: xid\nevents:\n  - {bad: awful, why: w, source: s, lines: l}\n",
     f"event 1: bad: expected one of {', '.join(BAD)}, not awful"),
    ("class: xid\nevents:\n  - {bad: info, why: '', source: s, lines: l}\n", "event 1: why: expected text"),
])
def test_a_mistake_in_a_file_is_named_with_its_place(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "xid.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"xid\.yaml: ") as caught:
        labelled(tmp_path)
    assert str(caught.value).endswith(wanted)


def test_every_file_of_the_folder_is_read() -> None:
    assert {event.file for event in EVENTS} == {file.name for file in FAULTS.glob("*.yaml")}
