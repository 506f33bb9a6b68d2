"""The punch list as text, CSV and HTML: whole pages, and nothing that anybody computes or runs."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import Node
from inventory.text import clean
from provisioning.bringup.pages import report
from provisioning.bringup.pages.progress import SERIAL, trouble_of
from provisioning.bringup.pages.report import PunchListItem, PunchListSummary
from provisioning.bringup.pages.reporthtml import html
from tests.goldens import golden
from tests.provisioning.bringup.filled import GPU, NOW, PSU, place, small

FORMULA = ("=", "+", "-", "@")
texts = st.text(max_size=60) | st.sampled_from(
    ["=1+1", "@SUM(1)", "-2+3", "+1", " =1", "'=1", "\t=1", "＝1", "<script>", "a,b", 'a"b', "a\r\nb",
     "\x1b[2J", ""])
troubles = st.builds(Trouble, texts, st.sampled_from(Owner), texts, texts, texts, texts)
lines = st.lists(st.builds(lambda trouble, node, rack,
                           serial: report.line("os", node, NOW - 60, trouble, Node(node, rack=rack), serial),
                           troubles, texts, texts, texts), max_size=8)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> list[PunchListItem]:
    folder = tmp_path_factory.mktemp("state")
    small(folder)
    with opened(folder) as store:
        at = {one.node: one for one in bringups.progress(store)}
        return report.ordered(
            report.line(one.step, one.node, at[one.node].since, trouble_of(one), place(one.node),
                        at[one.node].kept.get(SERIAL, "")) for one in bringups.troubles(store))


HEAD = PunchListSummary(NOW, 12, 2, 5)


def test_the_list_as_text(listed: list[PunchListItem]) -> None:
    golden("bringup-report.txt", "".join(f"{line}\n" for line in report.text(listed, HEAD)))


def test_the_list_as_csv(listed: list[PunchListItem]) -> None:
    golden("bringup-report.csv", report.csv(listed))


def test_the_list_as_html(listed: list[PunchListItem]) -> None:
    golden("bringup-report.html", html(listed, HEAD))


def test_whoever_walks_goes_from_rack_to_rack_and_to_each_machine_once() -> None:
    def at(rack: str, unit: str, node: str, slot: str) -> PunchListItem:
        return report.line("hardware", node, NOW, Trouble("x", Owner.DATACENTRE, "y", "psu", slot),
                           Node(node, rack=rack, labels={"unit": unit}))

    right = [at("r2", "U2", "b", "PSU 1"), at("r2", "U2", "b", "PSU 2"), at("r2", "U10", "a", "PSU 1"),
             at("r10", "U1", "c", "PSU 1")]
    network = report.line("ssh", "z", NOW, Trouble("x", Owner.NETWORK, "y"), Node("z", rack="r1"))
    assert report.ordered([network, *reversed(right)]) == [*right, network]


def test_a_machine_that_no_inventory_knows_has_a_line_too() -> None:
    one = report.line("hardware", "gpu001", NOW, PSU, None)
    assert "rack not known  gpu001  psu PSU 2, serial PS-77" in "\n".join(report.text([one], HEAD))


@pytest.mark.parametrize(("head", "said"), [
    (PunchListSummary(NOW, 0, 0, 0), "No machine was started: muster bringup run NODES"),
    (PunchListSummary(NOW, 8, 8, 0), "Nothing to repair."),
    (PunchListSummary(NOW, 8, 2, 0, Owner.VENDOR), "Nothing to repair for the vendor."),
])
def test_an_empty_list_says_so_and_how_many_machines_are_not_through(
    head: PunchListSummary, said: str,
) -> None:
    assert list(report.text([], head))[1:] == [said] and said in html([], head)
    assert f"{head.machines - head.through} on the way" in next(report.text([], head))
    assert report.csv([]) == ",".join(report.COLUMNS) + "\r\n"


@settings(deadline=None)
@given(lines)
def test_a_csv_reader_gets_back_every_cell_and_a_spreadsheet_none_that_it_would_compute(
    found: list[PunchListItem],
) -> None:
    text = report.csv(found)
    head, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert tuple(head) == report.COLUMNS and text.count("\r\n") == 1 + len(found)
    assert [tuple(cell.removeprefix("'") for cell in row) for row in rows] == [one.cells for one in found]
    for row in rows:
        assert not any(cell.strip().startswith(FORMULA) for cell in row)


@settings(deadline=None)
@given(texts)
def test_taking_the_apostrophe_away_gives_back_what_was_there(cell: str) -> None:
    found = report.harmless(cell)
    assert found in (cell, f"'{cell}") and found.removeprefix("'") == cell


class Reader(HTMLParser):
    """What a browser would make of the page: its elements, and the text of the cells."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._open = tag == "td" or (self._open and tag == "br")
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.cells[-1] += data


@settings(deadline=None)
@given(lines)
def test_a_browser_reads_every_text_back_and_nothing_to_run_or_to_fetch(found: list[PunchListItem]) -> None:
    reader = Reader()
    reader.feed(html(found, HEAD))
    assert reader.elements <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "section", "table", "thead",
        "tbody", "tr", "th", "td", "br"}
    assert reader.attributes <= {"lang", "charset", "http-equiv", "content", "name", "id", "class"}
    rows = [reader.cells[at:at + 12] for at in range(0, len(reader.cells), 12)]
    groups = [one for _, mine in report.owned(found) for one in mine]
    assert [row[1:4] + row[10:] for row in rows] == [
        [one.rack, one.unit, one.node, one.what, one.hand] for one in groups]


def test_what_a_hostile_machine_says_is_bounded_and_stays_on_its_line() -> None:
    hostile = Trouble("\x1b]0;x\x07\n[ ] rack r99  gpu999" + "A" * 100_000, Owner.DATACENTRE,
                      "=cmd|' /C calc'!A0\u202e", "psu", "\x00" * 500, "B" * 500)
    one = report.line("hardware", "gpu001", NOW, hostile, Node("gpu001"))
    text = list(report.text([one], HEAD))
    assert len(text) == 6 and all(line.isprintable() and len(line) < 800 for line in text)
    assert len(html([one], HEAD)) < 5000 and len(report.csv([one])) < 1500
    assert report.csv([one]).splitlines()[1].endswith(",'=cmd|' /C calc'!A0\\u202e")


def test_a_serial_number_is_as_the_machine_says_it() -> None:
    # No apostrophe in front, which would keep it from matching the delivery list.
    one = report.line("checks", "gpu001", NOW, GPU, None, "0012345")
    assert ",0012345," in report.csv([one]) and f",{GPU.serial}," in report.csv([one])


def test_the_text_of_a_cell_is_what_is_clean() -> None:
    one = report.line("checks", "gpu001", NOW, Trouble("a\tb", Owner.USER, "c"), None)
    assert one.what == clean("a\tb") == "a\\tb"
