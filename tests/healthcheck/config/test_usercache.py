"""What was made of files is kept between commands: whole or not at all, by this user, and never in someone's
way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from healthcheck.collector import program
from healthcheck.config import usercache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "muster"


def test_what_was_kept_is_found_by_its_kind_and_name(cache: Path) -> None:
    assert usercache.load("a", "1") is None
    usercache.save("a", "1", b"one")
    assert usercache.load("a", "1") == b"one"
    assert usercache.load("a", "2") is None
    assert usercache.load("b", "1") is None
    assert cache.stat().st_mode & 0o777 == 0o700
    assert (cache / "a-1").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [
    lambda data: data[:-1], lambda data: data + b"x", lambda data: b"", lambda data: data[:31],
    lambda data: b"\0" + data[1:], lambda data: data[:40] + b"!" + data[41:],
])
def test_what_is_damaged_is_not_there(cache: Path, damage: object) -> None:
    usercache.save("a", "1", b"what a node will run")
    file = cache / "a-1"
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert usercache.load("a", "1") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_what_another_user_wrote_is_not_there(cache: Path) -> None:
    usercache.save("a", "1", b"one")
    os.chown(cache / "a-1", 12345, 12345)
    assert usercache.load("a", "1") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as sudo gives it")
def test_root_keeps_nothing_in_another_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    usercache.save("a", "1", b"one")
    assert list(home.iterdir()) == []


def test_of_a_kind_the_newest_four_are_kept(cache: Path) -> None:
    usercache.save("other", "1", b"other")
    for number in range(6):
        usercache.save("a", str(number), b"one")
        os.utime(cache / f"a-{number}", (number, number))
    assert sorted(path.name for path in cache.iterdir()) == ["a-2", "a-3", "a-4", "a-5", "other-1"]


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    usercache.save("a", "1", b"one")
    assert usercache.load("a", "1") is None


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    usercache.save("a", "1", b"one")
    assert usercache.load("a", "1") is None


def test_parts_are_not_mistaken_for_other_parts() -> None:
    assert usercache.digest([b"ab", b"c"]) != usercache.digest([b"a", b"bc"])
    assert usercache.digest([b"ab"]) == usercache.digest([b"ab"])


def test_the_program_for_the_nodes_is_kept_and_is_as_it_was_made(cache: Path) -> None:
    for made in (program.collector_source, program.nvml_extra):
        made.cache_clear()
    first = program.collector_source(), dict(program.nvml_extra())
    names = sorted(path.name.partition("-")[0] for path in cache.iterdir())
    assert names == (["collector", "nvml"] if first[1] else ["collector"])
    for made in (program.collector_source, program.nvml_extra):
        made.cache_clear()
    assert (program.collector_source(), dict(program.nvml_extra())) == first
    (cache / next(path.name for path in cache.iterdir() if path.name.startswith("collector"))).write_bytes(
        b"print('not ours')")
    program.collector_source.cache_clear()
    assert program.collector_source() == first[0]


def test_a_cache_folder_that_is_no_absolute_path_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "here")     # which the XDG Base Directory Specification has ignored
    usercache.save("a", "1", b"one")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("a-1")] == [".cache/muster/a-1"]
