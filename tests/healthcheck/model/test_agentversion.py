"""One rule says what the head accepts of agents that are older or newer than it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.agentversion import AgentAge, agent_version, not_recorded


@pytest.mark.parametrize(("version", "age", "step"), [
    ("0.4.2", AgentAge.SAME, ""),
    ("0.4.1", AgentAge.OLDER, "muster agent upgrade gpu001"),
    ("0.3", AgentAge.OLDER, "muster agent upgrade gpu001"),
    ("0.4.10", AgentAge.NEWER, "update muster here, or muster agent rollback gpu001"),
    ("0.5.0rc1", AgentAge.NEWER, "update muster here, or muster agent rollback gpu001"),
    ("0.4.2rc1", AgentAge.OTHER, "muster agent upgrade gpu001"),
    ("0.4.2+site.7", AgentAge.OTHER, "muster agent upgrade gpu001"),
    ("0.4.2.dev3", AgentAge.OTHER, "muster agent upgrade gpu001"),
])
def test_versions_of_one_first_number_are_accepted(version: str, age: AgentAge, step: str) -> None:
    found = agent_version(version, "0.4.2", "gpu001")
    assert (found.age, found.refused, found.next) == (age, "", step)


@pytest.mark.parametrize(("version", "head", "age", "step"), [
    ("0.9.9", "1.0.0", AgentAge.OLDER, "muster agent upgrade gpu001"),
    ("2.0.0", "1.7", AgentAge.NEWER, "update muster here, or muster agent rollback gpu001"),
])
def test_another_first_number_is_refused_with_what_to_type(version: str, head: str, age: AgentAge,
                                                           step: str) -> None:
    found = agent_version(version, head, "gpu001")
    assert (found.age, found.next) == (age, step)
    assert found.refused == f"its agent is of another version ({version}, {head} here): {step}"


@pytest.mark.parametrize("version", [None, "", "new", "1.0; rm -rf /", "\x1b[2J", 1.0, [], "v1", "٣.1",
                                     "1." * 40, "1.0\n"])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    found = agent_version(version, "1.0", "gpu001")
    assert found.age is AgentAge.UNREADABLE and found.next == "muster agent upgrade gpu001"
    assert ("which is none; 1.0 here): muster agent upgrade gpu001" in found.refused
            and found.refused.isprintable())


@pytest.mark.parametrize(("schema", "step"), [
    ("muster.agent/0", "muster agent upgrade gpu001"), ("muster.agent/2", "update muster here"),
    ("muster.agent/12", "update muster here"),
    ("muster.agent/2.1", "muster agent upgrade gpu001"),
    ("muster.agent/99999999999", "muster agent upgrade gpu001"),
    ("other", "muster agent upgrade gpu001"), (None, "muster agent upgrade gpu001"),
    (7, "muster agent upgrade gpu001"),
])
def test_a_document_of_another_schema_is_refused_whatever_its_version(schema: object, step: str) -> None:
    found = agent_version("1.0", "1.0", "gpu001", schema)
    assert found.refused.startswith("its agent's file is of another version (") and step in found.refused


ANYTHING = st.none() | st.integers() | st.floats() | st.text(max_size=80) | st.from_regex(
    r"[0-9]+(\.[0-9]+)*[a-z0-9.+-]*", fullmatch=True)


@given(ANYTHING, ANYTHING)
def test_whatever_an_agent_says_gets_a_verdict_of_one_line(version: object, schema: object) -> None:
    for found in (agent_version(version, "0.1.0", "n1", schema), agent_version(version, "0.1.0", "n1")):
        assert "\n" not in found.refused and len(found.refused) < 300
        assert (found.age is AgentAge.SAME) == (found.next == "")
    assert agent_version(version, "0.1.0", "n1").age is not AgentAge.SAME or version == "0.1.0"


def test_the_note_on_a_probe_that_a_version_lacks_says_both_and_what_to_type() -> None:
    assert (not_recorded("0.0.9", "0.1.0",
                         "n1")
            == "its agent's version does not record this (0.0.9, 0.1.0 here): muster agent upgrade n1")
