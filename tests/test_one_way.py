"""Every command says things in one way: its options are walked in click's tree, and what does not fit yet is
listed here.

Each list is exact, so that a command which comes to fit leaves its list, and a new one which does not fit
fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from healthcheck.cli.main import root
from tests.documents import validate
from tests.healthcheck.help.pages import PAGES, commands, spans

# These change something, make a file for another program, or go on until they are ended: there is nothing to
# print as a document.
NO_DOCUMENT = {
    "agent manifest", "agent run", "baseline approve", "baseline learn", "bmc boot", "bmc media", "bmc power",
    "bringup resume", "bringup retry",
    "bringup run", "bringup skip", "burnin approve", "burnin learn", "certificate issue",
    "certificate key new", "certificate key retire",
    "certificate key use", "certificate revoke", "demo", "evidence", "exporter", "fabric disable",
    "fabric enable",
    "firmware update", "help", "incident close", "init",
    "inventory import ansible", "inventory import csv", "inventory import slurm", "inventory rename",
    "lease release", "os disarm", "os release",
    "os render", "os serve", "privilege helper", "privilege kubernetes",
    "privilege sudoers", "record", "repaired", "rma close", "rma exchange", "rma open", "rma return",
    "rma ship", "sku learn", "store backup",
    "store move", "store prune", "store reconcile", "store restore", "unsilence",
}
# These names of options are old.
OLD_NAMES = ("--why", "--json")
# Here --json took a file.
JSON_FILE = ("burnin run", "burnin show")

def walk(command: click.Command, context: click.Context,
         words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None, (words, name)
        yield from walk(inner, click.Context(inner, info_name=name, parent=context), (*words, name))


TREE = dict(walk(root, click.Context(root, info_name="muster")))


def shown(command: click.Command) -> set[str]:
    """The option names that --help shows."""
    return {name for option in command.params if isinstance(option, click.Option) and not option.hidden
            for name in (*option.opts, *option.secondary_opts)}


OPTIONS = {words: shown(command) for words, command in TREE.items()}


def test_the_tree_is_walked_to_its_leaves() -> None:
    assert len(TREE) > 80 and {"check", "bmc power", "certificate key show",
                               "inventory import slurm"} <= set(TREE)


def test_every_command_that_reads_prints_a_document_with_format() -> None:
    assert {words for words, names in OPTIONS.items() if "--format" not in names} == NO_DOCUMENT


def test_every_format_has_a_table_which_is_the_default_and_none_is_called_text() -> None:
    found = {words: option
             for words, command in TREE.items() for option in command.params if "--format" in option.opts}
    for words, option in found.items():
        assert isinstance(option.type, click.Choice), words
        assert ("table" in option.type.choices and "text" not in option.type.choices
                and option.default == "table"), words


@pytest.mark.parametrize("old", OLD_NAMES)
def test_one_thing_has_one_name(old: str) -> None:
    assert not {words for words, names in OPTIONS.items() if old in names}


def test_bringup_commands_that_decide_take_rules() -> None:
    deciding = {f"bringup {name}" for name in ("base", "plan", "resume", "retry", "run", "status")}
    assert not {words for words in deciding if "--rules" not in OPTIONS[words]}


def test_no_command_both_waits_for_apply_and_acts_unless_dry_run() -> None:
    assert not {words for words, names in OPTIONS.items() if {"--apply", "--dry-run"} <= names}


def test_what_can_be_answered_with_yes_can_be_shown_first() -> None:
    asking = {words for words, names in OPTIONS.items() if "--yes" in names}
    assert {"bmc power", "bmc boot", "bmc media", "reboot"} <= asking
    assert not {words for words in asking if not OPTIONS[words] & {"--dry-run", "--apply"}}


def test_every_command_is_shown_on_a_page() -> None:
    pages = {" ".join(one.words) + " " for page in PAGES for one in (*commands(page), *spans(page))}
    assert not {words for words in TREE if not any(line.startswith(words + " ") for line in pages)}


@pytest.mark.parametrize(("words", "said"), [
    (("--why", "x"), "muster: --why is now --reason\n"),
    (("--why", "x", "--reason", "y"), "give one of them"), ((), "Missing option '--reason'"),
])
def test_the_old_name_of_an_option_is_taken_and_says_so(words: tuple[str, ...], said: str,
                                                        tmp_path: Path) -> None:
    done = CliRunner().invoke(root, ["baseline", "approve", str(tmp_path / "none.yaml"), *words])
    assert said in done.stderr and (said == "muster: --why is now --reason\n" or done.exit_code == 2)
    assert "Missing" not in done.stderr or not words


FORMATTED = [(words, option) for words, command in TREE.items()
             for option in command.params if option.name == "as_json" and words not in JSON_FILE]


def test_the_commands_with_the_shared_format_are_many() -> None:
    assert len(FORMATTED) > 25


@pytest.mark.parametrize("words", [words for words, _ in FORMATTED])
@pytest.mark.parametrize(("typed", "expected"), [
    ((), False), (("--format", "table"), False), (("--format", "json"), True), (("--json",), True),
    (("--json", "--format", "json"), True),
])
def test_a_document_is_asked_for_with_format_or_with_the_hidden_json(
    words: str, typed: tuple[str, ...], expected: bool,
) -> None:
    context = click.Context(TREE[words], resilient_parsing=True)
    TREE[words].parse_args(context, list(typed))
    option = dict(FORMATTED)[words]
    values, _, _ = TREE[words].make_parser(click.Context(TREE[words])).parse_args(list(typed))
    value, _ = option.consume_value(context, values)
    assert option.process_value(context, value) is expected and "--json" not in OPTIONS[words]


def test_json_and_another_format_are_refused() -> None:
    done = CliRunner().invoke(root, ["gate", "--format", "table", "--json"])
    assert done.exit_code == 2 and "--json is the old name of --format json: give one of them" in done.stderr


def test_the_keys_are_a_document_without_private_parts(tmp_path: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(root, ["certificate", "key", "new", "--state", str(tmp_path)])
        assert not done.exception or done.exit_code == 0, done.output
    done = CliRunner().invoke(root,
                              ["certificate", "key", "show", "--state", str(tmp_path), "--format", "json"])
    document = json.loads(done.stdout)
    validate(document, "keys-1")
    assert [(one["key"], one["signs"], one["trusted"]) for one in document["keys"]] == [
        ("key1", True, True), ("key2", False, True)] and "PRIVATE" not in done.stdout
