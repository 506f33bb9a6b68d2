"""The README and the topics hold together: every link leads somewhere, every path and name exists, and every
topic is listed."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.healthcheck.help.pages import FOLDER, PAGES, README, ROOT, TOPICS, blocks, code, name, prose

INDEX = FOLDER / "index.md"
MAINTAINERS = ("architecture", "adding-a-check", "adding-a-cordon-back-end", "testbeds")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# Code that names something of this repository: a path, a dotted name, or a class and its method.
PATHS = re.compile(r"(?:inventory|healthcheck|provisioning|rules|scripts|tests)/[\w./*-]+")
SITES_OWN = {"rules/sku/*.yaml", "rules/*.yaml"}
# What `adding-a-check` has its reader write, and what is in the wheel only.
WRITTEN = {"healthcheck/facts/thp.py", "healthcheck/checks/thp.py", "rules/thp.yaml",
           "tests/healthcheck/checks/test_thp.py",
           "provisioning/actions/NAME.py", "healthcheck/_rules"}
NAMED = re.compile(r"`([\w./-]+\.py)` \(([^)]*)\)")
# The same with the module between the parentheses, too: (`healthcheck/triage/decide.py`, `decide`).
NAMED_INSIDE = re.compile(r"`([\w./-]+\.py)`((?:, `[A-Za-z_][\w.]*`)+)")
PRODUCT = [path for package in ("inventory", "healthcheck", "provisioning")
           for path in (ROOT / package).rglob("*.py")]
LONGEST_README = 220


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    found = set()
    for line in prose(page).splitlines():
        if line.startswith("#"):
            heading = line.lstrip("#").strip().lower().replace("`", "")
            found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_a_heading_of_the_repository(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT) and file.exists(), f"{name(page)}: {target}"
        assert not anchor or anchor in anchors(file), f"{name(page)}: {target}: no such heading"


def test_every_topic_is_listed_once_and_reached_from_the_readme() -> None:
    listed = re.findall(r"^- \[([a-z0-9-]+)\]\(([a-z0-9-]+)\.md\): \S", INDEX.read_text(), re.MULTILINE)
    assert [shown for shown, _ in listed] == [linked for _, linked in listed]
    assert sorted(shown for shown, _ in listed) == sorted(name(topic) for topic in TOPICS)
    assert "healthcheck/help/index.md" in README.read_text()
    assert {name(topic) for topic in TOPICS} >= set(MAINTAINERS)


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= LONGEST_README


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_one_title_and_every_block_says_what_it_is(page: Path) -> None:
    assert page.read_text().startswith("# ")
    assert len([line for line in prose(page).splitlines() if line.startswith("# ")]) == 1
    assert {language for language, _ in blocks(page)} <= {"sh", "console", "yaml", "text", "python"}
    assert "```" not in prose(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_exists(page: Path) -> None:
    for span in code(page):
        for path in PATHS.findall(span):
            if path not in WRITTEN | SITES_OWN:
                assert list(ROOT.glob(path.rstrip("/"))), f"{name(page)}: {path}"


@cache
def names(file: str) -> frozenset[str]:
    """What a module defines: its names, and its classes' methods and fields as CLASS.NAME."""
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        for one in defined(node):
            found.add(one)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one}" for inner in node.body for one in defined(inner)}
    return frozenset(found)


def defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node,
                                         ast.Assign) else [node.target] if isinstance(node,
                                                                                      ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


@pytest.mark.parametrize("topic", MAINTAINERS)
def test_every_name_that_stands_behind_a_module_is_defined_there(topic: str) -> None:
    """`healthcheck/judge/judge.py` (`judge`, `rule_on`)."""
    text = " ".join(prose(FOLDER / f"{topic}.md").split())
    for file, inside in (*NAMED.findall(text), *NAMED_INSIDE.findall(text)):
        for one in re.findall(r"`([A-Za-z_][\w.]*)`", inside):
            assert one in names(file), f"{topic}: {file} defines no {one}"


def test_the_walks_name_enough_to_be_followed() -> None:
    text = " ".join(prose(FOLDER / "architecture.md").split())
    assert len(NAMED.findall(text)) > 45
    assert text.count("## Walk") == 5


@pytest.mark.parametrize("topic", MAINTAINERS)
def test_every_dotted_name_is_one_of_ours(topic: str) -> None:
    """`Backend.isolate`: some module that the page names defines it."""
    page = FOLDER / f"{topic}.md"
    named = {path for span in code(page) for path in PATHS.findall(span) if path.endswith(".py")
             and path not in WRITTEN and "*" not in path}
    known = frozenset().union(*(names(path) for path in named))
    for span in code(page):
        if re.fullmatch(r"[A-Z]\w+\.[a-z_]\w*", span) and not span.endswith(".md"):
            assert span in known, f"{topic}: {span}"


@pytest.mark.parametrize("topic", MAINTAINERS)
def test_every_class_that_is_named_is_one_of_ours(topic: str) -> None:
    """`SupportsRead`: some module of the product defines it."""
    ours = {name for path in PRODUCT
            for name in re.findall(r"(?m)^(?:class |(?=\w+(?:: .*)? = ))([A-Z]\w*)", path.read_text())}
    for span in code(FOLDER / f"{topic}.md"):
        if re.fullmatch(r"[A-Z]\w*[a-z]\w*", span):
            assert span in ours, f"{topic}: no module defines {span}"


def test_the_ladder_that_is_drawn_is_the_one_that_is_enforced() -> None:
    from tests.test_ladder import LADDERS

    drawn = next(text for language, text in blocks(FOLDER / "architecture.md") if language == "text"
                 and "collector" in text)
    for root in ("healthcheck", "provisioning"):
        part = drawn.split("provisioning\n")[root == "provisioning"]
        rungs = [line.split(maxsplit=1)[1] for line in part.splitlines() if re.match(r" +\d+ ", line)]
        assert len(rungs) == len(LADDERS[root])
        for line, packages in zip(rungs, LADDERS[root], strict=True):
            assert line.split()[: len(packages)] == list(packages), line


def test_the_picture_is_small_and_of_the_demo() -> None:
    picture = FOLDER / "demo.svg"
    assert picture.stat().st_size < 60_000
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")     # noqa: S314  (it is ours)
    assert "scripts/demo" in picture.read_text().replace("&#160;", " ")
    assert f"({picture.relative_to(ROOT)})" in README.read_text()


def test_the_folder_holds_topics_and_the_picture_and_nothing_else() -> None:
    assert {path.suffix for path in FOLDER.iterdir()} == {".md", ".svg"}
