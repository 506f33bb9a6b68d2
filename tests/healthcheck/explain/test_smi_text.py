"""The text of `nvidia-smi -q`: what it says is what the XML log would have said,
and is judged by the rules themselves."""

from __future__ import annotations

import pytest

from healthcheck.explain.smitext import as_xml
from healthcheck.facts.smi_fabric import HEALTH_PARTS
from tests.healthcheck.explain.cases import FOLDER, explained, rules

NARROW = "narrow.nvidia-smi-q.txt"
# The names as drivers 570 and later print them (published output of nvidia-smi -q), each in a word that is
# healthy and one that is not.
PARTS = {
    "Bandwidth": ("Full", "Degraded"), "Route Recovery in progress": ("False", "True"),
    "Route Unhealthy": ("False", "True"), "Access Timeout Recovery": ("False", "True"),
    "Incorrect Configuration": ("None", "No Partition"),
}


def _log(**health: str) -> bytes:
    """The composed log with two wide links, and with this fabric health of each GPU."""
    text = (FOLDER / NARROW).read_text().replace("8x", "16x")
    said = "".join(f"            {name:<42}: {value}\n" for name, value in health.items())
    old = "            Bandwidth                     : N/A\n"
    assert text.count(old) == 2
    return text.replace(old, said).encode()


def test_a_fabric_whose_parts_are_all_well_is_well() -> None:
    told = explained(_log(**{name: well for name, (well, _) in PARTS.items()}))
    assert (told.causes, told.exit_code) == ((), 0)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_fabrics_health_is_read_from_the_text(part: str) -> None:
    told = explained(_log(**{name: words[name == part] for name, words in PARTS.items()}))
    assert told.exit_code == 1
    assert {cause.by for cause in told.causes} == {"nvlink-fabric-health"}


def test_every_part_that_the_xml_log_has_is_read_from_the_text() -> None:
    xml = as_xml(_log(**{part.replace("_", " ").title(): "True" for part in HEALTH_PARTS}).decode())
    assert [part for part in HEALTH_PARTS if f"<{part}>" not in xml] == []


def test_a_narrow_link_is_whose_and_as_bad_as_the_rule_says() -> None:
    (rule,) = (rule for rule in rules().rules if rule.id == "gpu-pcie-width")
    (cause,) = explained(NARROW).causes
    assert (cause.by, cause.severity, cause.owner, cause.remedy) == (
        rule.id, rule.severity, rule.owner, rule.remedy)
