"""The list of healthy machines' logs is of its form, and the logs that are here are those that were looked
through."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest

from tests.healthcheck.baseline.healthy import ELSEWHERE, HEALTHY, Healthy, healthy, there

LOGS = healthy()


def test_there_are_at_least_eight_logs_of_thousands_of_lines() -> None:
    assert len(LOGS) >= 8 and sum(log.length for log in LOGS) >= 10_000


def test_every_name_is_there_once() -> None:
    assert len({log.name for log in LOGS}) == len(LOGS)


def test_every_published_log_is_named_by_the_commit_it_is_of() -> None:
    assert [log.name for log in LOGS if log.url
            and not re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", log.url)] == []


def test_our_own_log_is_here_and_names_no_host() -> None:
    (own,) = [log for log in LOGS if not log.url]
    text = own.data().decode()
    assert len(text.splitlines()) == own.length
    assert not re.search(r"[\w.]+@[\w.]+\.\w+|sandbox|\d+\.\d+\.\d+\.\d+[:/]", text)


@pytest.mark.parametrize("log", there(), ids=lambda log: log.name)
def test_a_log_that_is_here_has_the_lines_that_were_looked_through(log: Healthy) -> None:
    assert len(log.data().decode("utf-8", "replace").removesuffix("\n").split("\n")) == log.length


def test_a_published_log_is_read_plain_and_packed_and_only_if_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = b"[    0.000000] Linux version 6.1\n"
    log = Healthy("a.txt", "a machine", "dmesg", 1, {}, "https://example.org/a.txt",
                  hashlib.sha256(text).hexdigest())
    monkeypatch.setenv(ELSEWHERE, str(tmp_path))
    with pytest.raises(ValueError,
                       match=r"a\.txt: not there: put https://example\.org/a\.txt into the folder"):
        log.data()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    assert log.data() == text
    (tmp_path / "a.txt").write_bytes(text + b"more\n")
    with pytest.raises(ValueError, match=r"a\.txt: not the log that was looked through"):
        log.data()


@pytest.mark.parametrize(("entry", "wanted"), [
    ("{name: a}", "expected the keys form, lines, machine, name, truly_bad, and url and sha256 for a "
                  "published log"),
    ("{name: a, machine: m, form: dmesg, lines: 3, truly_bad: [], url: u}", "url and sha256 go together"),
    ("{name: a, machine: m, form: dmesg, lines: 3, truly_bad: [{lines: 4, why: w}]}",
     "truly_bad: expected lines of the log, such as 12 or 12-14, not 4"),
])
def test_a_mistake_in_the_list_is_named(tmp_path: Path, entry: str, wanted: str) -> None:
    (tmp_path / "logs.yaml").write_text(f"logs:\n  - {entry}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"logs\.yaml: log 1: ") as caught:
        healthy(tmp_path)
    assert str(caught.value).endswith(wanted)


def test_the_numbers_of_a_range_are_all_truly_bad(tmp_path: Path) -> None:
    (tmp_path / "logs.yaml").write_text("logs:\n  - {name: a, machine: m, form: dmesg, lines: 9, truly_bad: "
                                        "[{lines: 2-4, why: w}, {lines: 9, why: v}]}\n", encoding="utf-8")
    assert healthy(tmp_path)[0].truly_bad == {2: "w", 3: "w", 4: "w", 9: "v"}


def test_every_log_beside_the_list_is_in_it() -> None:
    assert {file.name.removesuffix(".gz") for file in HEALTHY.iterdir()} - {"logs.yaml", "README.md"} <= {
        log.name for log in LOGS}
