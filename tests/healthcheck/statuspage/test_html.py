"""The page is one well-formed file that loads nothing, runs nothing of a node's, and holds every fact without
JavaScript."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.statuspage.html import page
from healthcheck.statuspage.served import StatusPage
from tests.healthcheck.statuspage.made import HOSTILE, NOW, World, world
from tests.tries import tries

VOID = {"meta", "link", "input", "img", "br"}


class Tree(HTMLParser):
    """What a browser without JavaScript makes of it: tags, attributes, texts by the tag that they stand in,
    and what is not closed."""

    def __init__(self, data: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[tuple[str, str]] = []
        self.wrong: list[str] = []
        self.feed(data)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def texts(self, *tags: str) -> str:
        return " ".join(text for tag, text in self.text if not tags or tag in tags)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("fleet"), 24, now=NOW, hostile=HOSTILE)


@pytest.fixture(scope="module")
def tree(made: dict[str, Any]) -> Tree:
    return Tree(page(made).data.decode())


def test_every_tag_is_closed_and_every_id_is_there_once(tree: Tree) -> None:
    assert (tree.wrong, tree.open) == ([], [])
    ids = [attributes["id"] for _, attributes in tree.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in tree.tags:
        for key in ("for", "aria-labelledby"):
            assert all(each in ids for each in attributes.get(key, "").split())


def test_nothing_is_loaded_from_elsewhere_and_no_attribute_runs(tree: Tree) -> None:
    for tag, attributes in tree.tags:
        for key, value in attributes.items():
            assert not key.startswith("on") and key not in ("style", "srcset", "action",
                                                            "formaction"), (tag, key)
            if key in ("src", "href", "data", "poster"):
                assert value.startswith(("data:image/svg+xml;base64,", "#", "data:,")), (tag, key, value[:60])
    assert [attributes.get("type", "") for attributes in tree.all("script")] == ["application/json", ""]
    assert {tag for tag, _ in tree.tags}.isdisjoint({"iframe", "object", "embed", "base", "svg", "math"})
    style = (Path(page.__code__.co_filename).parent / "template" / "page.css").read_text()
    assert "url(" not in style and "@import" not in style


def test_the_policy_admits_the_page_s_own_style_and_script_by_hash(made: dict[str, Any], tree: Tree) -> None:
    policy = page(made).policy
    assert tree.all("meta")[1] == {"http-equiv": "Content-Security-Policy", "content": policy}
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        text = next(text for kind, text in reversed(tree.text) if kind == tag)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "http" not in policy


def test_the_table_without_javascript_has_the_facts_of_every_node(made: dict[str, Any], tree: Tree) -> None:
    text = page(made).data.decode()
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>",
                      text[text.index("<noscript>"):text.index("</noscript>")], re.DOTALL)
    assert len(rows) == len(made["nodes"]) == 24
    for one, row in zip(made["nodes"], rows, strict=True):
        cells = Tree(row)
        said = cells.texts()
        assert (cells.text[0][1] == one["node"] and one["state"] in said and one["next"] in said
                and one["gate"] in said)
        assert one.get("owner", "") in said and one.get("turn", "") in said and one["sku"] in said
        assert ("never" if "seen" not in one else " min" if not one.get("stale") else " h") in said
        for number, _, ended in one.get("findings", ())[:1]:
            assert ended or made["findings"][number]["rule"] in said


def test_the_nodes_that_the_script_reads_are_those_of_the_document(made: dict[str, Any], tree: Tree) -> None:
    (data,) = [text for tag, text in tree.text if tag == "script"][:1]
    found = json.loads(data)
    assert (found["nodes"], found["findings"], found["made"]) == (made["nodes"],
                                                                  made["findings"], made["made"])
    assert not set("<>&\u2028\u2029") & set(data)


def test_the_burn_in_picture_is_an_image_with_words_for_who_does_not_see_it(tree: Tree) -> None:
    (picture,) = tree.all("img")
    ElementTree.fromstring(base64.b64decode(picture["src"].partition(",")[2]))      # noqa: S314  (our own)
    assert "muster burnin show 20261122T030000-1" in picture["alt"]


def spoilt(value: Any, text: str) -> Any:
    """The document with this text in the place of every text that is no word of ours."""
    if isinstance(value, dict):
        return {key: spoilt(each, text) if key not in ("schema", "state", "owner", "picture", "severity",
                                                       "status", "gate") else each
                for key, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each, text) for each in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_node_becomes_markup(made: dict[str, Any], text: str) -> None:
    hostile = Tree(page(spoilt(made, text)).data.decode())
    assert (hostile.wrong, hostile.open) == ([], [])
    harmless = Tree(page(spoilt(made, "x")).data.decode())
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]


@settings(max_examples=tries(25), deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_shown_as_itself(text: str) -> None:
    one = {"node": text, "sku": text, "state": "healthy", "gate": "open", "next": text}
    whole = Tree(page({**EMPTY, "nodes": [one], "notes": [text]}).data.decode())
    assert (whole.wrong, whole.open, len(whole.all("script"))) == ([], [], 2)
    assert json.loads(next(text
                           for tag, text in whole.text
                           if tag == "script"))["nodes"] == [json.loads(json.dumps(one))]


EMPTY: dict[str, Any] = {
    "schema": "muster.page/1", "made": int(NOW), "source": "", "newest_sweep": None, "notes": [], "ready": [],
    "certifies": False,
    "changes": [], "work": [], "counts": {}, "incidents": [], "novelties": [], "logs_not_judged": 0,
    "burnin": None, "findings": [], "nodes": []}


def test_a_kernel_log_that_was_not_judged_is_never_called_clean() -> None:
    said = Tree(page({**EMPTY, "counts": {"healthy": 3}, "logs_not_judged": 3}).data.decode()).texts()
    assert "Not judged on 3 nodes" in said and "Nothing that healthy nodes" not in said
    said = Tree(page({**EMPTY, "counts": {"healthy": 3}, "logs_not_judged": 1}).data.decode()).texts()
    assert "Not judged on 1 node:" in said and "where it was judged" in said


def test_a_fleet_of_no_nodes_has_a_page_too() -> None:
    assert "No node is known" in Tree(page(copy.deepcopy(EMPTY)).data.decode()).texts()


def test_a_thousand_nodes_with_findings_stay_within_their_share_of_the_bytes(made: dict[str, Any]) -> None:
    one = max(made["nodes"], key=lambda node: len(json.dumps(node)))
    size = len(page({**made, "nodes": [{**one, "node": f"gpu{at:05d}"} for at in range(100)]}).data)
    # All of them as sick as the sickest: 3 MB are for 4,096 nodes, of which most are not.
    assert (size - len(page({**made, "nodes": []}).data)) / 100 < 4000


def test_the_exporter_s_page_comes_with_its_policy_and_stays_for_half_a_minute(fleet: World) -> None:
    now = [NOW]
    home = StatusPage(fleet.state, fleet.inventory, None, lambda: now[0])
    first = home.answer(False)
    assert (first.status, first.type) == (200, "text/html; charset=utf-8")
    assert first.headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
    now[0] += 29
    assert home.answer(False).body[0] is first.body[0]
    now[0] += 2
    assert home.answer(False).body[0] is not first.body[0]
    small = home.answer(True)
    assert small.gzipped and len(small.body[0]) < len(first.body[0]) / 3


def test_the_exporter_s_page_says_that_there_is_no_store(tmp_path: Path) -> None:
    answer = StatusPage(tmp_path, None, None).answer(False)
    assert (answer.status == 503 and b"muster check --store" in answer.body[0]
            and not (tmp_path / "muster.db").exists())
