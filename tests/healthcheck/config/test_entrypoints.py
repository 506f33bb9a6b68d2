"""Plug-ins are found wherever importlib.metadata finds them, and it is asked only where there may be one."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from healthcheck.config.entrypoints import GROUP, entries

POINTS = "[console_scripts]\nother = other:main\n\n[muster.checks]\nsite = site_checks\n"
ABOUT = "Metadata-Version: 2.1\nName: site-checks\nVersion: 1\n"


def folder(name: str, points: str = POINTS, about: str = "METADATA") -> Callable[[Path], Path]:
    """A package's folder of this name in a folder that is searched."""
    def made(at: Path) -> Path:
        (at / name).mkdir()
        (at / name / about).write_text(ABOUT)
        (at / name / "entry_points.txt").write_text(points)
        return at

    return made


def egg(at: Path) -> Path:
    """An egg, which is searched itself."""
    (at / "site_checks-1.egg").mkdir()
    return folder("EGG-INFO", about="PKG-INFO")(at / "site_checks-1.egg")


def archive(at: Path) -> Path:
    """A zip file, which is searched itself."""
    with zipfile.ZipFile(at / "site.zip", "w") as file:
        file.writestr("site_checks-1.dist-info/METADATA", ABOUT)
        file.writestr("site_checks-1.dist-info/entry_points.txt", POINTS)
    return at / "site.zip"


@pytest.mark.parametrize("place", [
    folder("site_checks-1.dist-info"), folder("Site_Checks-1.DIST-INFO"), egg, archive,
    folder("site_checks-1.egg-info", about="PKG-INFO"),
    folder("site_checks-1.dist-info", "[ muster.checks ]\nsite=site_checks\n")])
def test_a_plug_in_is_found_where_python_finds_it(
    place: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(place(tmp_path)), *sys.path])
    found = entries()
    assert [entry.value for entry in found] == [entry.value for entry in metadata.entry_points(group=GROUP)]


def test_a_plug_in_that_only_a_finder_of_its_own_knows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Distribution(metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return {"METADATA": ABOUT, "entry_points.txt": POINTS}.get(filename)

        def locate_file(self, path: object) -> Path:
            raise FileNotFoundError(path)

    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(_: object = None) -> list[Distribution]:
            return [Distribution()]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert [entry.value for entry in entries()] == ["site_checks"]


@pytest.mark.parametrize("place", [
    folder("site_checks-1.dist-info", "[console_scripts]\nsite = site_checks:main\n"), folder("site_checks"),
    lambda at: at / "missing"])
def test_without_a_plug_in_there_is_none(
    place: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(place(tmp_path)), *sys.path])
    assert entries() == ()


def test_where_this_user_may_not_look_is_no_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python ignores it, too: `sudo -u nobody` may keep a PYTHONPATH that lies in root's home.
    (tmp_path / "closed" / "lib").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "closed" / "lib"), *sys.path])
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        assert entries() == ()
    finally:
        os.seteuid(user)
        (tmp_path / "closed").chmod(0o700)


def test_the_working_folder_counts_where_python_searches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder("site_checks-1.dist-info")(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert [entry.value for entry in entries()] == ["site_checks"]


def test_without_a_plug_in_no_package_is_searched() -> None:
    program = "import sys; from healthcheck.config.entrypoints import entries; print(entries(), " \
              "'importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "() False\n"
