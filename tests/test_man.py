"""scripts/man writes a page of every command from its --help, and the formatter has nothing to say about
it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.cli.main import SECTIONS
from tests.test_one_way import OPTIONS, TREE

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "man"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man") / "man1"
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True, timeout=60,
                   env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
    return folder


def page(pages: Path, words: str) -> str:
    return (pages / f"muster-{words.replace(' ', '-')}.1").read_text()


def test_each_command_has_a_page_with_its_options(pages: Path) -> None:
    for words in TREE:
        found = page(pages, words)
        assert found.startswith(f".TH MUSTER-{words.replace(' ', '-').upper()} 1 1970-01-02 "), words
        for option in OPTIONS[words]:
            assert option.replace("-", "\\-") in found, (words, option)


def test_a_group_names_its_commands_and_the_first_page_has_the_headings_of_the_help(pages: Path) -> None:
    assert ".BR muster\\-bmc\\-power (1)" in page(pages, "bmc")
    first = (pages / "muster.1").read_text()
    assert all(f'.SH "{heading.upper()}"\n' in first for heading in SECTIONS)


def test_examples_and_exit_codes_have_their_sections(pages: Path) -> None:
    found = page(pages, "bmc power")
    assert (".SH \"EXAMPLES\"\n.nf\nmuster bmc power gpu007 on\n" in found
            and ".SH \"EXIT STATUS\"\n0 all accepted" in found)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_formatter_has_nothing_to_say(pages: Path) -> None:
    files = sorted(map(str, pages.glob("*.1")))
    done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", *files], capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "--dry-run" in done.stdout


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_has_no_warning(pages: Path) -> None:
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *sorted(map(str, pages.glob("*.1")))],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_brings_the_pages_to_where_man_looks(tmp_path: Path) -> None:
    """It is built as pip builds it, with no more than the hook asks for."""
    root = SCRIPT.parents[1]
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, root], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    subprocess.run([tmp_path / "env/bin/python", "-m", "pip", "install", "--quiet", "--no-deps", wheel],
                   check=True, timeout=300)
    found = tmp_path / "env/share/man/man1"
    assert {file.name for file in found.iterdir()} > {f"muster-{words.replace(' ', '-')}.1" for words in TREE}
    if shutil.which("man") is not None:
        page = found / "muster-bmc-power.1"
        done = subprocess.run(["man", "-l", page], capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
        # A machine may have man without its formatter, which it says.
        assert "muster bmc power gpu007 on" in done.stdout or "minimized" in done.stdout + done.stderr, done
