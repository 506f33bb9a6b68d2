"""Real kernels: what virtual machines said when they booted and when they suffered, judged by catalogue and
baseline."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from healthcheck.baseline.cataloguecache import catalogue as read_catalogue
from healthcheck.baseline.formats import read
from healthcheck.baseline.kernelrules import KernelCatalogue
from healthcheck.config.rulesfolder import packaged
from healthcheck.kernellog.fold import fold
from healthcheck.kernellog.masking import template
from healthcheck.kernellog.model import Digest, LogLine
from tests.healthcheck.baseline import vmlogs

CLEAN, BUILD2 = vmlogs.names("clean-"), vmlogs.names("build2-")
CATALOGUE = KernelCatalogue("catalogue", read_catalogue([packaged()]))
# templates of a boot that no other boot has said: what systemd says of slow services, and a clock that was
# lost
MOST_NOVEL = 6


def lines(name: str) -> list[LogLine]:
    (log,) = read(vmlogs.load(name).records, name)
    return list(log.lines)


DIGESTS: dict[str, Digest] = {name: fold(lines(name)) for name in (*CLEAN, *BUILD2)}


def said(*names: str) -> set[str]:
    return {message.template for name in names for message in DIGESTS[name].messages}


@pytest.mark.parametrize("name", [*CLEAN, *BUILD2])
def test_a_boot_with_other_devices_and_serials_says_hardly_anything_that_the_others_have_not(
    name: str,
) -> None:
    novel = said(name) - said(*(other for other in DIGESTS if other != name))
    print(f"{name}: {len(novel)} of {len(DIGESTS[name].messages)} templates are novel: {sorted(novel)}")
    assert len(novel) <= MOST_NOVEL, sorted(novel)


def test_half_of_the_boots_with_devices_in_another_order_say_nothing_new_at_all() -> None:
    quiet = [name for name in DIGESTS
             if not said(name) - said(*(other for other in DIGESTS if other != name))]
    assert len(quiet) * 2 >= len(DIGESTS), quiet


def test_another_build_of_the_kernel_says_what_the_first_has_said() -> None:
    assert {DIGESTS[name].scope.kernel for name in BUILD2}.isdisjoint(
        DIGESTS[name].scope.kernel for name in CLEAN)
    for name in BUILD2:
        novel = said(name) - said(*CLEAN)
        assert len(novel) <= MOST_NOVEL, sorted(novel)


def test_no_clean_boot_is_accused_of_a_critical_fault() -> None:
    for name, digest in DIGESTS.items():
        known = [entry.id for message in digest.messages if (entry := CATALOGUE.entry(message)) is not None
                 and entry.severity.value == "critical"]
        assert known == [], name


SUFFERED = [(name, fault) for name in vmlogs.names() if name not in DIGESTS
            for fault in vmlogs.load(name).faults if not fault.console]


@pytest.mark.parametrize(("name", "fault"), SUFFERED,
                         ids=[f"{name}-{fault.name}" for name, fault in SUFFERED])
def test_a_fault_that_was_made_is_known_or_new(name: str, fault: vmlogs.Suffered) -> None:
    """By name where the catalogue has it; else at least one of its lines is one that no clean boot says."""
    of_fault = [line for line in lines(name) if line.sequence in fault.lines]
    digest = fold(of_fault)
    known = {entry.id for message in digest.messages if (entry := CATALOGUE.entry(message)) is not None}
    novel = {message.template for message in digest.messages} - said(*CLEAN, *BUILD2)
    print(f"{name} {fault.name}: known {sorted(known)}, novel {len(novel)}")
    assert known or novel


def twelve_thousand(chance: random.Random) -> list[LogLine]:
    """As many lines as a large machine says, made of a real boot's, each with other numbers."""
    real = [line.text for line in lines(CLEAN[0])]
    texts = [*real, *(chance.choice(real) for _ in range(12_000 - len(real)))]
    return [LogLine(text, number / 100, 6, number) for number, text in enumerate(texts)]


def test_a_few_bad_lines_among_twelve_thousand_are_found_by_name_every_time() -> None:
    """One example of each entry of the catalogue, a dozen to a log, at any places far from each other."""
    chance = random.Random(8)
    log = twelve_thousand(chance)
    usual = {message.template for message in fold(log).messages}
    # What this machine says, too, is not to be found.
    entries = [entry for entry in CATALOGUE.catalogue.entries if template(entry.examples[0]) not in usual]
    for first in range(0, len(entries), 12):
        planted = list(log)
        some = {2000 + 800 * number + chance.randrange(600): entry
                for number, entry in enumerate(entries[first:first + 12])}
        for at, entry in some.items():
            planted[at] = replace(log[at], text=entry.examples[0])
        found = [message for message in fold(planted).messages if message.template not in usual]
        for entry in some.values():
            text = entry.examples[0]
            named = CATALOGUE.catalogue.find(text)
            assert any(CATALOGUE.entry(message) == named and text in (line.text for line in message.lines)
                       for message in found), entry.id
