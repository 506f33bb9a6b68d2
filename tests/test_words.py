"""Names, messages, comments and documentation use the words of an engineer at work, one word for one thing.

`PLAIN` has the words that are not used, each with what is written in its place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.trees import nodes

ROOT = Path(__file__).parents[1]
PRODUCT = sorted(path for package in ("inventory", "healthcheck", "provisioning")
                 for path in (ROOT / package).rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "healthcheck/help").glob("*.md")),
             *sorted((ROOT / "rules").rglob("*.yaml"))]

# What is written in place of each.
PLAIN = {
    "told": "reported, message, output", "saying": "message", "sayings": "messages", "deed": "action",
    "deeds": "actions",
    "doer": "executor", "doers": "executors", "dues": "due times", "wish": "desired state",
    "wishes": "desired states",
    "settled": "cached, decided", "alike": "equal, fingerprint", "nobody": "no one",
    "plainly": "(leave it out)",
    "thereof": "of it", "whereof": "of which", "wherein": "in which", "henceforth": "from then on",
    "whence": "from where",
}
# Ids of rules and fields of stored documents, which keep their names.
KEPT = re.compile(r"host-dimm-alike|dimm\.alike|host_dimm_alike|dimm_alike|kernel[-._]told|settled_hours"
                  r"|bringup_deed|told INTEGER|COLUMN told"  # what steps of the store's schema had
                  r"|\"nobody\""  # a holder in the protocol muster.action/1
                  r"|guest nobody daemon"  # users of every Linux
                  r"|irq-nobody|nobody cared")  # what the kernel says
WORD = re.compile(r"[a-z]+")


def words(text: str) -> set[str]:
    """The words of a text or a name, split at underscores and capitals."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", KEPT.sub("", text))
    return set(WORD.findall(parted.lower()))


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Every name that a module defines, with its line."""
    for node in nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


@cache
def wrong(text: str) -> list[str]:
    """What of a text is written otherwise."""
    return [f"{word} (write: {PLAIN[word]})" for word in sorted(words(text) & PLAIN.keys())]


def test_a_word_is_found_in_a_name_of_any_style_and_in_prose() -> None:
    assert wrong("_was_told") and wrong("ToldLine") and wrong("nobody is there") and wrong("Nobody.")
    assert not wrong("withholds") and not wrong("host-dimm-alike") and not wrong("no one")


@pytest.mark.parametrize("package", ["inventory", "healthcheck", "provisioning"])
def test_names_of_modules_classes_functions_and_variables_are_plain(package: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{line} {name}: {', '.join(wrong(name))}"
             for path in PRODUCT if path.relative_to(ROOT).parts[0] == package
             for line, name in [(1, path.stem), *names(path)] if wrong(name)]
    assert found == []


@pytest.mark.parametrize("package", ["inventory", "healthcheck", "provisioning"])
def test_messages_and_comments_are_in_plain_words(package: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{number} {', '.join(wrong(line))}"
             for path in PRODUCT if path.relative_to(ROOT).parts[0] == package
             for number, line in enumerate(path.read_text().splitlines(), 1) if wrong(line)]
    assert found == []


# Keys and file names of documents that are not used any more, and where one of them still stands: where a
# document of an earlier version is read, and in outputs whose keys are others' interface.
FORMER_KEYS = {"look", "looks", "look.json", "said", "told", "deed"}
READ = {"healthcheck/agent/served.py": {"look"}, "healthcheck/sweep/saved.py": {"look"},
        "healthcheck/sweep/snapshots.py": {"looks"},
        "healthcheck/sweep/fabricoutput.py": {"look.json"}, "healthcheck/baseline/filedocument.py": {"looks"},
        "provisioning/bringup/policy/fields.py": {"looks"},
        "provisioning/firmware/onnode/operations.py": {"said"},
        "provisioning/remediate/onnode/operations.py": {"said"}}
SHOWN = {"healthcheck/blame/page.py": {"said"}, "provisioning/base/page.py": {"said"},
         "provisioning/bringup/pages/progress.py": {"said"},
         "provisioning/cli/agent.py": {"said"}, "provisioning/cli/agentupgrade.py": {"said"},
         "provisioning/cli/bmcshow.py": {"said"},
         "healthcheck/joblog/model.py": {"said"}}


def test_documents_have_the_keys_of_today_but_where_an_earlier_one_is_read_or_an_output_keeps_its_own(
) -> None:
    found: dict[str, set[str]] = {}
    for path in PRODUCT:
        if old := {node.value for node in nodes(path) if isinstance(node, ast.Constant)
                   and isinstance(node.value, str)} & FORMER_KEYS:
            found[str(path.relative_to(ROOT))] = old
    assert found == READ | SHOWN


def test_what_is_referred_to_is_in_the_repository() -> None:
    """A section of a page that readers do not have explains nothing, and `invariant N` is one of those that
    architecture lists."""
    page = (ROOT / "healthcheck/help/architecture.md").read_text()
    listed = set(re.findall(r"^([1-9])\. \*\*",
                            page.partition("## What always holds")[2].partition("\n## ")[0], re.MULTILINE))
    assert listed == set("12345678")
    elsewhere = re.compile(r"\bDESIGN\b")
    number = re.compile(r"invariant[ _](\d+)", re.IGNORECASE)
    tests = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__).resolve()]
    found = [f"{path.relative_to(ROOT)}: {text}" for path in (*PRODUCT, *DOCUMENTS, *tests)
             for text in [*elsewhere.findall(path.read_text()),
                          *set(number.findall(path.read_text())) - listed]]
    assert found == []


def test_the_documentation_is_in_plain_words() -> None:
    found = [f"{path.relative_to(ROOT)}:{number} {', '.join(wrong(line))}"
             for path in DOCUMENTS
             for number, line in enumerate(path.read_text().splitlines(), 1) if wrong(line)]
    assert found == []
