"""Reads known messages from `joblog/*.yaml` of the rules folders; every mistake is one line with file,
line and column.

A file is a list of messages. A later folder overrides an earlier one by id, key by key; its own go before
those of earlier folders, and the first that knows a line has it. `enabled: false` switches one off.

    - id: cuda-ecc
      match: 'CUDA error: uncorrectable ECC error'      # see healthcheck/config/pattern.py
      sure: certain                                     # certain, likely or a guess
      severity: critical                                # info: nothing is wrong by it
      accuses: node                                     # node, peer, adapter or none; optional, as are
                                                        # the next five
      fault: gpu                                        # gpu, network, host, node, program, speed ...
      least: 1                                          # lines before it counts
      symptom: false                                    # it follows from something else
      job: false                                        # no machine is at fault
      enabled: true
      meaning: The GPU's memory held data that could not be corrected
      brief: met an ECC error                           # a short form, behind a node's name; optional
      remedy: Drain the node, and look at its kernel log.
      owner: operator                                   # user, operator, network, datacentre or vendor
      source: CUDA Runtime API, cudaErrorECCUncorrectable
      examples: ['RuntimeError: CUDA error: uncorrectable ECC error encountered']
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from healthcheck.config import entry as entries
from healthcheck.config import linear
from healthcheck.config.entryvalues import member, pattern, sentence, switch, wrong
from healthcheck.config.rulesfolder import display_name
from healthcheck.joblog.meaning import Culprit, FaultDomain, Sure
from healthcheck.joblog.messages import KnownMessage
from healthcheck.model.outcome import Owner, Severity
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, load_yaml
from inventory.text import short

KEYS = ("id", "match", "sure", "severity", "accuses", "fault", "least", "symptom", "job", "meaning", "brief",
        "remedy", "owner", "source", "examples", "enabled")


def load_messages(folders: Iterable[Path]) -> tuple[KnownMessage, ...]:
    """The messages of all folders; raises RulesError. Later folders come first, else in file order."""
    found: dict[str, entries.Entry] = {}
    places: dict[str, int] = {}
    for place, folder in enumerate(folders):
        for path in sorted((folder / "joblog").glob("*.yaml")):
            document = load_yaml(path, error=RulesError)
            if not isinstance(document, LocatedList):
                raise RulesError(f"expected a list of messages, got {entries.kind_of(document)}",
                                 Mark(str(path), 1, 1))
            for at, item in enumerate(document):
                made = entries.entry_of(item, KEYS, "id", document.value_marks[at], "message")
                places.setdefault(made.name, -place)
                entries.overlay(found, made, "id")
    return tuple(_message(found[name]) for name in sorted(found, key=lambda name: places[name]))


def _message(given: entries.Entry) -> KnownMessage:
    match = pattern(given, "match")
    owner, job = member(given, "owner", Owner), switch(given, "job", False)
    accuses = member(given, "accuses", Culprit) if "accuses" in given.values else Culprit.NODE
    network = owner is Owner.NETWORK or accuses in (Culprit.PEER, Culprit.ADAPTER)
    usual = FaultDomain.PROGRAM if job else FaultDomain.NETWORK if network else FaultDomain.HOST
    made = KnownMessage(
        id=given.name, match=match, sure=member(given, "sure", Sure),
        severity=member(given, "severity", Severity), meaning=sentence(given, "meaning"),
        remedy=sentence(given, "remedy"), owner=owner, source=sentence(given, "source"),
        examples=_examples(given), needs=linear.required_words(match),
        brief=sentence(given, "brief") if "brief" in given.values else "",
        accuses=accuses, fault=member(given, "fault", FaultDomain) if "fault" in given.values else usual,
        least=_least(given), symptom=switch(given, "symptom", False), job=job, file=given.mark.file,
        line=given.mark.line, overridden=given.overridden,
        disabled="" if switch(given, "enabled", True)
        else f"disabled in {display_name(given.marks['enabled'].file)}",
    )
    if not made.needs:
        raise wrong(given, "match", f"holds no word of {linear.SHORTEST} characters that each line must "
                                     "have, so it would match too much")
    for example in made.examples:
        if not made.knows(example):
            raise wrong(given, "examples", f"match does not match {short(example)}")
    return made


def _least(given: entries.Entry) -> int:
    value = given.values.get("least", 1)
    if type(value) is not int or value < 1:
        raise wrong(given, "least", f"expected a number of lines, 1 or more, got {entries.kind_of(value)}")
    return value


def _examples(given: entries.Entry) -> tuple[str, ...]:
    value = given.values.get("examples")
    if not isinstance(value, list) or not value or not all(isinstance(line, str) and line for line in value):
        raise wrong(given, "examples", "expected a list of lines that it matches")
    return tuple(value)
