"""Whether the head accepts what an agent of another version of muster left, and what to type if not. Pure.

The rule: versions differ harmlessly while their documents have the same schema and their first number is the
same. What such an agent's version does not record is UNKNOWN of origin muster, rule by rule, and all else
counts. Of any other agent nothing counts: its node is UNKNOWN of origin muster. An older agent is upgraded
(`muster agent upgrade`), and where the agent is newer, muster is updated on the head. To leave a node out of
a sweep (`--from-prometheus`) takes an equal version: there is no recording that the head could judge again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from healthcheck.model.places import SCHEMA

NOT_RECORDED = "its agent's version does not record this"
# PEP 440's release, and whatever follows it: pre, post and development releases, a local label.
_VERSION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6}){0,4})((?:[-.+_]?[a-z0-9]+)*)", re.ASCII)
_SCHEMA, _, _NUMBER = SCHEMA.rpartition("/")
_LATER = re.compile(re.escape(_SCHEMA) + "/([0-9]{1,4})", re.ASCII)
_LONGEST = 60


class AgentAge(Enum):
    """How an agent's version compares with the head's."""

    SAME = "as here"
    OLDER = "older than here"
    NEWER = "newer than here"
    OTHER = "another build than here"       # the same release, as a pre-release and its final one
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class AgentVersion:
    """`refused` is why nothing of this agent counts, with what to type, in one line; empty if it counts.
    `next` is what makes the versions equal, empty where they are."""

    age: AgentAge
    refused: str
    next: str


def agent_version(version: object, head: str, node: str, schema: object = SCHEMA) -> AgentVersion:
    """What becomes of what an agent of this version left: `version` and `schema` are what its document says,
    which may be anything; `head` is our own version; `node` stands in commands to type."""
    if schema != SCHEMA:
        match = _LATER.fullmatch(schema) if isinstance(schema, str) else None
        later = match is not None and int(match[1]) > int(_NUMBER)
        shown = ascii(schema)[:_LONGEST] if schema is None or isinstance(schema, str) else "no text"
        step = _step(AgentAge.NEWER if later else AgentAge.OLDER, node)
        return AgentVersion(AgentAge.NEWER if later else AgentAge.UNREADABLE,
                            f"its agent's file is of another version ({shown}, expected {SCHEMA}): {step}",
                            step)
    own, ours = _parsed(version), _parsed(head)
    if own is None or ours is None:
        shown = ascii(version)[:_LONGEST] if version is None or isinstance(version, str) else "no text"
        step = _step(AgentAge.OLDER, node)
        return AgentVersion(AgentAge.UNREADABLE, f"its agent is of another version ({shown}, which is none; "
                                                 f"{head} here): {step}", step)
    if version == head:
        return AgentVersion(AgentAge.SAME, "", "")
    age = (AgentAge.OLDER if own < ours else AgentAge.NEWER if own > ours else AgentAge.OTHER)
    step = _step(age, node)
    refused = (f"its agent is of another version ({version}, {head} here): {step}"
               if own[0] != ours[0] else "")
    return AgentVersion(age, refused, step)


def not_recorded(version: object, head: str, node: str) -> str:
    """The note of a probe that an accepted agent's version does not have."""
    found = agent_version(version, head, node)
    return f"{NOT_RECORDED} ({version}, {head} here): {found.next or _step(AgentAge.OLDER, node)}"


def _step(age: AgentAge, node: str) -> str:
    return (f"update muster here, or muster agent rollback {node}" if age is AgentAge.NEWER
            else f"muster agent upgrade {node}")


def _parsed(version: object) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch(version) if isinstance(version, str) and len(version) <= _LONGEST else None
    if match is None:
        return None
    release = [int(part) for part in match[1].split(".")]
    return tuple(release + [0] * (5 - len(release)))
