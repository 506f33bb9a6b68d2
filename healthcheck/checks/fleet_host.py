"""Fleet checks of nodes' installation and boot: distribution, BIOS, machine, kernel parameters and
settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import Comparison, Split, Uncompared, odd_ones, outliers, read_all
from healthcheck.facts.firmware import Firmware
from healthcheck.facts.system import Sysctls, System
from healthcheck.model.outcome import Finding
from inventory.text import clean


@fleet_check("fleet.os")
def fleet_os(system: Mapping[str, System]) -> Comparison:
    """Every node has the distribution, in the release, that the majority of its cohort has."""
    yield from outliers(system, lambda fact: fact.os, "distribution")


@fleet_check("fleet.cmdline")
def fleet_cmdline(system: Mapping[str, System]) -> Comparison:
    """Every node's kernel was booted with the parameters of the majority, apart from a node's own (root=,
    BOOT_IMAGE= and the like)."""
    given = read_all(system, lambda fact: " ".join(sorted(fact.parameters)) or "none")
    usual = Counter(given.values()).most_common(1)[0][0].split() if given else []
    for node, found in odd_ones([(node, "kernel parameters", words) for node, words in given.items()],
                                "kernel parameters", "nodes"):
        own = given[node].split()
        lacks, has = [word for word in usual if word not in own], [word for word in own if word not in usual]
        parts = [f"{how} {' '.join(words)}" for how, words in (("without", lacks), ("with", has)) if words]
        observed = clean("; ".join(parts) or "some of them twice", 300)
        if isinstance(found, Finding):
            yield node, Finding(observed, f"as {str(found.expected).rpartition(', as ')[2]}", found.subject)


@fleet_check("fleet.sysctl")
def fleet_sysctl(sysctls: Mapping[str, Sysctls]) -> Comparison:
    """Every kernel setting that is read has the majority's value; a setting on which the cohort is split is
    not judged."""
    values = read_all(sysctls, lambda fact: fact.values)
    for name in sorted({name for held in values.values() for name in held}):
        given = [(node, name, held[name]) for node, held in values.items() if name in held]
        yield from odd_ones(given, name, "nodes", Split.NO_ONE)
        yield from ((node, Uncompared(name, "this kernel does not have it, others do"))
                    for node, held in values.items() if name not in held)


@fleet_check("fleet.bios")
def fleet_bios(firmware: Mapping[str, Firmware]) -> Comparison:
    """Every node has the BIOS version of the majority of its cohort."""
    yield from outliers(firmware, lambda fact: fact.bios, "BIOS")


@fleet_check("fleet.product")
def fleet_product(firmware: Mapping[str, Firmware]) -> Comparison:
    """Every node is the machine, by maker, product and board, that the majority of its cohort is."""
    yield from outliers(firmware, lambda fact: f"{fact.maker} {fact.product}, board {fact.board}", "machine")
