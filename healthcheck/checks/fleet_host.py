"""Fleet checks of how nodes were installed and booted: distribution, BIOS, machine, kernel parameters and settings, memory size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.checks.fleet import NoMajority, Said, outliers
from healthcheck.facts.firmware import Firmware
from healthcheck.facts.system import Sysctls, System
from healthcheck.model.outcome import Finding
from inventory.text import clean


@fleet_check("fleet.os")
def fleet_os(system: Mapping[str, System]) -> Iterator[tuple[str, Finding]]:
    """Every node has the distribution, in the release, that the majority of its cohort has."""
    yield from outliers({node: fact.os for node, fact in system.items()}, "distribution")


@fleet_check("fleet.cmdline")
def fleet_cmdline(system: Mapping[str, System]) -> Iterator[tuple[str, Finding]]:
    """Every node's kernel was booted with the parameters of the majority; what is a node's own (root=, BOOT_IMAGE= and the like) aside."""
    said = {node: " ".join(sorted(fact.parameters)) or "none" for node, fact in system.items()}
    usual = Counter(said.values()).most_common(1)[0][0].split() if said else []
    for node, found in outliers(said, "kernel parameters"):
        own = said[node].split()
        lacks, has = [word for word in usual if word not in own], [word for word in own if word not in usual]
        parts = [f"{how} {' '.join(words)}" for how, words in (("without", lacks), ("with", has)) if words]
        observed = clean("; ".join(parts) or "some of them twice", 300)
        yield node, Finding(found.subject, observed, f"as {str(found.expected).rpartition(', as ')[2]}")


@fleet_check("fleet.sysctl")
def fleet_sysctl(sysctls: Mapping[str, Sysctls]) -> Said:
    """Every kernel setting that is read has the majority's value; one on which the cohort is split accuses nobody."""
    names = sorted({name for fact in sysctls.values() for name in fact.values})
    for name in names:
        try:
            yield from outliers({node: fact.values[name] for node, fact in sysctls.items() if name in fact.values}, name)
        except NoMajority:
            continue


@fleet_check("fleet.bios")
def fleet_bios(firmware: Mapping[str, Firmware]) -> Iterator[tuple[str, Finding]]:
    """Every node has the BIOS version of the majority of its cohort."""
    yield from outliers({node: fact.bios for node, fact in firmware.items()}, "BIOS")


@fleet_check("fleet.product")
def fleet_product(firmware: Mapping[str, Firmware]) -> Iterator[tuple[str, Finding]]:
    """Every node is the machine, by maker, product and board, that the majority of its cohort is."""
    yield from outliers({node: f"{fact.maker} {fact.product}, board {fact.board}" for node, fact in firmware.items()}, "machine")
