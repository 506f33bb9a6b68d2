"""The page in a real browser: no word on the console, keys, filters, links, both colour modes, axe, and a
fleet of hostile names.

axe-core comes from npm; where there is none, that test is skipped with its reason.
"""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from healthcheck.statuspage.gather import document
from healthcheck.statuspage.html import page
from healthcheck.store.file import opened
from inventory.load import load_inventory
from tests.healthcheck.statuspage.made import HOSTILE, NOW, World, world
from tests.testbed.chromium import CHROMIUM, Chromium
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install -y chromium")]


def written(there: World, file: Path) -> str:
    """The page as a file; its address."""
    with opened(there.state) as store:
        file.write_bytes(page(document(store, load_inventory(there.inventory), there.state, NOW)).data)
    return file.as_uri()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("small")
    return written(world(folder, 32, now=NOW, hostile=HOSTILE), folder / "page.html")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("large")
    return written(world(folder, 4096, now=NOW, hostile=HOSTILE), folder / "page.html")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    try:
        done = subprocess.run(["npm", "pack", "axe-core@4.14.1", "--silent"], cwd=folder, capture_output=True,
                              text=True, timeout=120)
    except OSError as error:
        pytest.skip(f"npm: {error.strerror}")
    if done.returncode:
        pytest.skip(f"npm pack axe-core: {done.stderr.strip()[-200:]}")
    with tarfile.open(folder / done.stdout.strip()) as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


def focused(browser: Chromium) -> str:
    return str(browser.run(
        "document.activeElement.querySelector('.name')?.textContent || document.activeElement.id"))


def shown(browser: Chromium) -> list[str]:
    return list(browser.run("[...document.querySelectorAll('.cell')].map((cell) => cell.node.node)"))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", ["small", "large"])
def test_it_opens_without_a_word_on_the_console(browser: Chromium, request: pytest.FixtureRequest, size: str,
                                                dark: bool) -> None:
    browser.said.clear()
    browser.open(request.getfixturevalue(size), dark=dark)
    wait_until(lambda: browser.run("performance.getEntriesByName('interactive').length") == 1, 30,
               "the first frame")
    assert browser.said == []
    assert len(shown(browser)) == (32 if size == "small" else 4096)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == ("rgb(16, 21, 27)" if dark
                                                                              else "rgb(246, 247, 249)")


def test_keys_go_through_the_fleet_open_a_node_and_come_back(browser: Chromium, small: str) -> None:
    browser.open(small, width=1400)
    browser.press("/")
    assert focused(browser) == "find"
    browser.run("document.querySelector('.cell[tabindex=\"0\"]').focus()")
    browser.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert focused(browser) == "gpu02"
    browser.press("End")
    assert focused(browser) == "gpu32"
    browser.press("Home", "ArrowDown")
    assert focused(browser) in ("gpu17", "gpu09")        # below the first, by how the racks are laid out
    assert browser.run("document.querySelectorAll('.cell[tabindex=\"0\"]').length") == 1
    browser.press("Home", "Enter")
    assert browser.run("!document.getElementById('detail').hidden") and focused(browser) == "detail"
    assert browser.run("location.hash") == "#node=gpu01"
    browser.press("Escape")
    assert browser.run("document.getElementById('detail').hidden") and focused(browser) == "gpu01"
    assert browser.run("location.hash") in ("", "#")


def test_a_link_leads_to_a_node_and_to_what_was_filtered(browser: Chromium, small: str) -> None:
    browser.open(f"{small}#node=gpu05&q=row-remap&owner=vendor")
    assert shown(browser) == ["gpu05"]
    assert "gpu-row-remap-failed" in browser.run("document.getElementById('detail').textContent")
    assert browser.run("document.querySelector('#detail .spark polyline') !== null")
    assert (browser.run("document.getElementById('shown').textContent")
            == "1 of 32 nodes; someone has to act on 1.")
    browser.run("document.getElementById('clear').click()")
    assert len(shown(browser)) == 32
    browser.run("location.hash = '#as=table&state=unhealthy'")
    wait_until(lambda: browser.run("document.querySelectorAll('#view tbody tr').length") == 8,
               10, "the table")


def test_a_job_of_so_many_nodes_has_an_answer_by_sku(browser: Chromium, small: str) -> None:
    browser.open(small)
    browser.run(
        "const need = document.getElementById('need'); need.value = '10'; need.dispatchEvent(new "
        "Event('input'))")
    assert browser.run("document.getElementById('fits').innerText").splitlines() == [
        "Yes on hgx-h100: 11 ready", "No on hgx-a100: 6 ready, 4 short"]


def test_hostile_texts_stay_texts(browser: Chromium, small: str) -> None:
    browser.said.clear()
    browser.open(f"{small}#node=gpu05")
    said = browser.run("document.getElementById('detail').textContent")
    assert "<script>alert(1)</script>" in said and "\\x1b[31mred" in said and "\\u202egnp" in said
    assert browser.run("document.querySelectorAll('script, img:not(.picture), iframe').length") == 2
    assert browser.said == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 2560])
def test_no_width_makes_the_page_scroll_sideways(browser: Chromium, small: str, width: int) -> None:
    for part in ("", "#node=gpu05", "#as=table"):
        browser.open(small + part, width=width)
        assert browser.run("document.documentElement.scrollWidth") <= width, part


def test_without_javascript_the_fleet_is_a_table(browser: Chromium, small: str) -> None:
    browser.open(small, script=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.querySelectorAll('table.nodes tbody tr').length") == 32
    assert browser.run("document.getElementById('app').hidden && document.querySelector('.ask').hidden")


def test_it_is_printed_on_white_though_the_screen_is_dark(browser: Chromium, small: str) -> None:
    browser.open(small, dark=True, media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('.bar')).display") == "none"
    assert browser.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("part", ["", "#node=gpu05", "#as=table"])
def test_axe_finds_nothing(browser: Chromium, small: str, axe: str, part: str, dark: bool) -> None:
    browser.open(small + part, width=1400, dark=dark)
    browser.run(f"{axe}; 0")
    found = browser.run(
        "axe.run(document).then((said) => said.violations.map((each) => each.id + ': ' + "
        "each.nodes[0].html))")
    assert found == []
