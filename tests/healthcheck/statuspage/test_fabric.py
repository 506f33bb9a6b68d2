"""The fabric on the status page: from `muster fabric map --store` to what a browser shows, with hostile
names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.statuspage.fabric import newest
from healthcheck.statuspage.gather import document
from healthcheck.statuspage.html import page
from healthcheck.store.file import opened
from healthcheck.subnet import mapdocument, plancsv
from healthcheck.subnet.cabling import CablingPlan
from healthcheck.subnet.hierarchy import hierarchy
from healthcheck.subnet.linkstates import CableState
from inventory.load import load_inventory
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.statuspage.made import NOW, World, world
from tests.healthcheck.subnet.made import rails
from tests.testbed.chromium import CHROMIUM, Chromium


def stored(state: Path, plan: CablingPlan, looks: dict[int, CableState]) -> None:
    """The map of a plan, with links in these states, as the command keeps it."""
    states = {cable: looks.get(at, CableState.AS_PLANNED) for at, cable in enumerate(plan.cables)}
    (state / mapdocument.FILE).write_text(json.dumps(mapdocument.document(hierarchy(plan), plan, states)))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> World:
    found = world(tmp_path_factory.mktemp("world"), 4, now=NOW)
    plan = rails()
    racks = {name: replace(device, rack=device.rack or ("r1" if name.startswith("leaf") else "n1"))
             for name, device in plan.devices.items()}
    stored(found.state, CablingPlan(racks, plan.cables),
           {0: CableState.MISSING, 5: CableState.WRONG, 9: CableState.UNKNOWN})
    return found


def shown(there: World) -> bytes:
    with opened(there.state) as store:
        made = document(store, load_inventory(there.inventory), there.state, NOW)
    validate(made, "page-1")
    return page(made).data


def test_what_is_wrong_comes_first_and_is_said_in_words(there: World) -> None:
    found = newest(there.state)
    assert found is not None and dict(found["counts"])["missing"] == 1
    first = found["racks"][0]["switches"][0]
    assert (first["name"], first["odd"]) == ("leaf001", ["gpu01 mlx5_0 to leaf001 1: missing"])
    text = shown(there).decode()
    assert ('<span class="wire w-missing">1 missing</span>' in text
            and "gpu01 mlx5_0 to leaf001 1: missing" in text)


def test_the_command_keeps_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text(plancsv.write(rails()))
    assert muster("fabric", "map", "--plan", "plan.csv", "--store", home=tmp_path).returncode == 0
    found = newest(tmp_path / "state")
    assert (found is not None and found["trouble"] == ""
            and found["counts"] == [["planned", len(rails().cables)]])


@pytest.mark.parametrize(("text", "trouble"), [
    ("{", "fabric-map.json cannot be read"), ("[]", "fabric-map.json is no muster.fabric.map/1"),
    ('{"schema": "muster.fabric.map/1"}', "fabric-map.json cannot be read"),
    ('{"schema": "muster.fabric.map/1", "devices": [], "links": [{"state": "<b>"}]}',
     "fabric-map.json cannot be read"),
])
def test_a_file_that_is_no_map_is_said_to_be_none(tmp_path: Path, text: str, trouble: str) -> None:
    assert newest(tmp_path) is None
    (tmp_path / mapdocument.FILE).write_text(text)
    found = newest(tmp_path)
    assert found is not None and found["trouble"] == trouble


def test_hostile_names_are_text(tmp_path: Path) -> None:
    there = world(tmp_path, 2, now=NOW)
    plan = plancsv.parse(
        'device,port,device,port\n"<script>alert(1)</script>",mlx5_0,"<img src=x onerror=alert(2)>",1\n', "p")
    stored(there.state, plan, {0: CableState.MISSING})
    text = shown(there).decode()
    assert "<script>alert" not in text and "<img src=x" not in text and "&lt;img src=x" in text


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install -y chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_the_switches_without_a_word_on_its_console(there: World, browser: Chromium,
                                                                    tmp_path: Path, dark: bool) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(shown(there))
    browser.open(file.as_uri(), dark=dark, width=390 if dark else 1280)
    assert browser.run("document.querySelector('#h-fabric').nextElementSibling.innerText").startswith(
        "Links: 1 missing 1 wrong 1 unknown")
    assert browser.run("getComputedStyle(document.querySelector('.w-missing')).borderLeftStyle") == "dotted"
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth") and not browser.said
