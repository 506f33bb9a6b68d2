"""`muster bmc accounts`: a plan that changes nothing, then what was planned; no password is ever shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.store import ledger
from healthcheck.store.file import opened
from tests.command import muster
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS, USER
from tests.testbed.redfish.service import Service

Command = Callable[..., subprocess.CompletedProcess[str]]
NODES = {"gpu001": "supermicro", "gpu002": "idrac"}
WANTED = "accounts: {password: random, store: {folder: pw}, first: {file: delivered}, operator: muster}\n"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[dict[str, Service]]:
    found = {name: MAKERS[maker]() for name, maker in NODES.items()}
    for one in found.values():
        one.add(USER, DELIVERED)
    with served(tmp_path, found) as places:
        entries = "".join(
            f"  {name}: {{bmc: {{address: {place[0]}, port: {place[1]}, tls: {place[2]}, user: {USER}}}}}\n"
            for name, place in places.items())
        (tmp_path / "muster.yaml").write_text(
            f"version: 1\ndefaults: {{bmc: {{password: {{file: '{tmp_path}/site/pw/{{node}}'}}}}}}\nnodes:\n"
            f"{entries}"
            "  gpu003: {bmc: {address: 127.0.0.1, port: 9, tls: verify, user: root}}\n")
        (tmp_path / "site").mkdir()
        (tmp_path / "site/bringup.yaml").write_text(WANTED)
        (tmp_path / "site/delivered").write_text(DELIVERED)
        (tmp_path / "site/delivered").chmod(0o600)
        yield found


@pytest.fixture
def accounts(tmp_path: Path, services: dict[str, Service]) -> Command:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        done = muster("bmc", "accounts", *words, "--rules", "site", home=tmp_path)
        known = {DELIVERED,
                 *(one.password for service in services.values() for one in service.accounts.values()
                   if one.password)}
        assert (not [one for one in known if one in done.stdout + done.stderr]
                and "Traceback" not in done.stderr)
        return done
    return run


def test_the_plan_changes_nothing_and_what_is_applied_is_so_afterwards(
    accounts: Command, services: dict[str, Service], tmp_path: Path,
) -> None:
    plan = accounts("gpu[001-002]")
    assert plan.returncode == 1 and plan.stdout == (
        "gpu[001-002]: to do: a password of its own and an operator's account muster\n"
        "Nothing changed; --apply does it.\n")
    assert not (tmp_path / "site/pw").exists()
    done = accounts("gpu[001-002]", "--apply")
    assert (done.returncode, done.stdout) == (
        0, "gpu[001-002]: done: it has a password of its own; it has an operator's account muster\n"
    ), done.stderr
    for name, service in services.items():
        assert (tmp_path / "site/pw" / name).read_text().strip() == service.password(USER)
    assert accounts("gpu[001-002]").stdout == "gpu[001-002]: as wanted\n"
    with opened(tmp_path / "state") as store:
        assert {(line.action, line.outcome) for line in ledger.lines(store)} == {
            ("bmc accounts", "it has a password of its own; it has an operator's account muster")}
    # and every other command reads what was kept
    assert muster("bmc", "show", "gpu001", home=tmp_path).returncode == 0


def test_one_that_is_not_reached_or_refuses_is_said_and_costs_the_others_nothing(
    accounts: Command, services: dict[str, Service],
) -> None:
    services["gpu001"].accounts[USER].password = "some-0ther"
    done = accounts("gpu[001-003]", "--apply", "--format", "json")
    found = {one["node"]: one["accounts"] for one in json.loads(done.stdout)["nodes"]}
    assert done.returncode == 3
    assert (found["gpu001"]["state"], found["gpu001"]["reason"]) == ("refused", "credentials")
    assert (found["gpu002"]["state"], found["gpu003"]["reason"]) == ("done", "unreachable")


def test_a_policy_that_wants_nothing_says_what_to_write(accounts: Command, tmp_path: Path) -> None:
    (tmp_path / "site/bringup.yaml").write_text("accounts: {password: keep}\n")
    done = accounts("gpu001")
    assert (done.returncode == 2 and done.stderr.count("\n") == 1
            and "accounts: {password: random" in done.stderr)


@pytest.mark.parametrize(("text", "said"), [
    ("accounts: {password: random}", "accounts: store is missing: a new password has to be kept"),
    ("accounts: {store: {folder: x, command: [y]}}", "accounts: store: expected {folder: PATH}"),
    ("accounts: {store: {command: [keep]}}", "accounts: store: expected {folder: PATH}"),
    ("accounts: {first: {text: secret}}", "accounts: first: expected {file: PATH}"),
    ("accounts: {length: 40}", "accounts: length: expected"),
    ("accounts: {password: good}", "accounts: password:"),
    ("accounts: {operator: 'a b'}", "accounts: operator:"), ("accounts: {pasword: random}", "pasword")])
def test_a_mistake_in_the_policy_is_one_line_with_its_place(
    accounts: Command, tmp_path: Path, text: str, said: str,
) -> None:
    (tmp_path / "site/bringup.yaml").write_text(text + "\n")
    done = accounts("gpu001")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert "bringup.yaml:1" in done.stderr
