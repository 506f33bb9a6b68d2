"""An upgrade keeps what was installed on each node, and a rollback what was there before it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory.errors import UsageError
from inventory.model import Node
from inventory.transport.base import Limits
from inventory.transport.local import LocalTransport
from provisioning.agent import reinstall, units
from provisioning.agent.bundle import Bundle
from provisioning.agent.install import AgentAction, AgentRequest, AgentResult, act
from tests.provisioning.agent import test_install as installs

NODE = Node("gpu001", sku="hgx-h100", python=sys.executable)
bundle, root = installs.bundle, installs.root


@pytest.fixture(scope="module")
def rules() -> Ruleset:
    return load_ruleset([packaged()])


def keep(desired: AgentRequest, rules: Ruleset, bundle: Bundle | None, *given: str) -> AgentResult:
    (done,) = reinstall.act_keeping([NODE], LocalTransport(), desired, given, Limits(), rules, bundle)
    return done


def installed(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "opt/muster/current/node.json").read_text())
    return found


def test_an_upgrade_keeps_period_profile_sku_and_textfile_but_for_what_is_said_anew(
    root: Path, bundle: Bundle, rules: Ruleset,
) -> None:
    desired = AgentRequest(AgentAction.INSTALL, root=str(root), period=60.0, occasion="gate", textfile="",
                           default_sku="hgx-h100")
    (done,) = act([NODE], LocalTransport(), desired, Limits(), bundle)
    assert done.ok, done.message
    before = installed(root)
    assert keep(AgentRequest(AgentAction.UPGRADE, root=str(root)), rules, installs.newer(bundle)).ok
    assert installed(root) == before
    cron = (root / units.CRON[1:]).read_text()
    assert "*/1 * * * * root" in cron and "--textfile" not in cron
    assert keep(AgentRequest(AgentAction.UPGRADE, root=str(root), period=120.0), rules, bundle, "period").ok
    assert installed(root) == {**before, "period": 120.0}


def test_a_rollback_brings_back_the_period_of_the_version_before(
    root: Path, bundle: Bundle, rules: Ruleset,
) -> None:
    list(act([NODE], LocalTransport(), AgentRequest(AgentAction.INSTALL, root=str(root), period=60.0),
             Limits(), bundle))
    first = (root / units.CRON[1:]).read_text()
    keep(AgentRequest(AgentAction.UPGRADE, root=str(root), period=600.0), rules, installs.newer(bundle),
         "period")
    second = (root / units.CRON[1:]).read_text()
    assert "*/1 * * * * root" in first and "*/10 * * * * root" in second
    for expected in (first, second):
        assert keep(AgentRequest(AgentAction.ROLLBACK, root=str(root)), rules, None).ok
        assert (root / units.CRON[1:]).read_text() == expected


def test_nodes_without_an_agent_or_with_a_damaged_one_say_so_and_are_left(
    root: Path, bundle: Bundle, rules: Ruleset,
) -> None:
    upgrade = AgentRequest(AgentAction.UPGRADE, root=str(root))
    assert "no agent is installed here" in keep(upgrade, rules, bundle).message
    assert "no agent is installed here" in keep(
        AgentRequest(AgentAction.ROLLBACK, root=str(root)), rules, None).message
    (done,) = act(
        [NODE], LocalTransport(), AgentRequest(AgentAction.INSTALL, root=str(root)), Limits(), bundle)
    assert done.ok and "there is no version before" in keep(
        AgentRequest(AgentAction.ROLLBACK, root=str(root)), rules, None).message
    (root / "opt/muster/current/node.json").write_text("{")
    done = keep(upgrade, rules, bundle)
    assert not done.ok and "cannot be read" in done.message and "muster agent install" in done.message


def test_a_profile_that_the_rules_of_now_do_not_have_is_to_be_said_anew(
    root: Path, bundle: Bundle, rules: Ruleset,
) -> None:
    list(act([NODE], LocalTransport(), AgentRequest(AgentAction.INSTALL, root=str(root), occasion="gone"),
             Limits(), bundle))
    done = keep(AgentRequest(AgentAction.UPGRADE, root=str(root)), rules, installs.newer(bundle))
    assert (done.ok, done.message) == (
        False, "what was installed here cannot be kept: profile 'gone'; name it again with --profile")
    assert keep(
        AgentRequest(AgentAction.UPGRADE, root=str(root)), rules, installs.newer(bundle), "occasion").ok


def test_nodes_that_were_installed_alike_are_done_together(
    bundle: Bundle, rules: Ruleset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[float, list[str]]] = []
    nodes = [Node(f"n{number}") for number in range(4)]

    def acted(
        some: list[Node], transport: object, desired: AgentRequest, *rest: object,
    ) -> Iterator[AgentResult]:
        if desired.do is AgentAction.STATUS:
            for number, node in enumerate(some):
                report = {"period": 60 if number % 2 else 300, "occasion": "timer"}
                yield AgentResult(node.name, True, "", (), {"current": "a" * 12, "installed": report})
        else:
            seen.append((desired.period, [node.name for node in some]))
            yield from (AgentResult(node.name, True, "") for node in some)
    monkeypatch.setattr(reinstall, "act", acted)
    done = list(reinstall.act_keeping(
        nodes, LocalTransport(), AgentRequest(AgentAction.UPGRADE), (), Limits(), rules, bundle))
    assert [one.node for one in done] == ["n0", "n2", "n1", "n3"]
    assert seen == [(300, ["n0", "n2"]), (60, ["n1", "n3"])]


PLAIN = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)


@given(st.dictionaries(st.sampled_from(["period", "occasion", "default_sku", "textfile", "exporter", "x"]),
                       PLAIN) | PLAIN)
def test_whatever_a_node_says_was_installed_is_kept_as_what_it_may_be_or_refused_in_a_line(
    rules: Ruleset, report: object,
) -> None:
    try:
        found = reinstall._installed(
            report, ("period", "occasion", "default_sku", "textfile", "exporter"), rules)
    except UsageError as error:
        assert "\n" not in str(error)
        return
    desired = AgentRequest(AgentAction.UPGRADE, **found)
    assert 10 <= desired.period <= 86400 and desired.occasion in (
        "", *rules.profiles) and desired.default_sku in (None, *rules.skus)
    assert desired.textfile is None or " " not in desired.textfile
    assert (desired.exporter is None
            or "ExecStart=@EXPORTER@ --listen " + desired.exporter + "\n" in units.exporter(desired.exporter))
