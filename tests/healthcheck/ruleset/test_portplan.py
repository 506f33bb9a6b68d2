"""`ports:` of a SKU: each port's role and rail, and a line that says what is wrong with another value."""

from __future__ import annotations

import re
from typing import Any

import pytest

from healthcheck.ruleset.portplan import read_ports
from inventory.errors import Mark, RulesError
from inventory.located import parse_yaml
from inventory.model import PortPlan

MARK = Mark("sku.yaml", 7, 1)


def test_a_port_has_a_role_which_is_compute_unless_it_says_otherwise_and_maybe_a_rail() -> None:
    found = {"0000:18:00.0": {"rail": 0}, "0000:2a:00.0": {"rail": 1023}, "0000:3b:00.0": {"role": "storage"},
             "0000:4C:00.0": {}}
    assert read_ports(found, MARK) == {
        "0000:18:00.0": PortPlan("compute", 0), "0000:2a:00.0": PortPlan("compute", 1023),
        "0000:3b:00.0": PortPlan("storage", None),
        "0000:4c:00.0": PortPlan("compute", None)}


@pytest.mark.parametrize(("found", "words"), [
    ([], "ports: expected a map from PCI addresses to {role, rail}"),
    ({"mlx5_0": {}}, "ports: 'mlx5_0' is no PCI address, expected one such as 0000:18:00.0"),
    ({"0000:4c:00.0": {}, "0000:4C:00.0": {}}, "ports: 0000:4c:00.0 is given twice"),
    ({"0000:18:00.0": "compute"}, "ports: 0000:18:00.0: expected a map with role and rail"),
    ({"0000:18:00.0": {"leaf": "l1"}}, "ports: 0000:18:00.0: expected a map with role and rail"),
    ({"0000:18:00.0": {"role": "backup"}}, "ports: 0000:18:00.0: role: expected one of compute"),
    ({"0000:18:00.0": {"rail": 1024}}, "ports: 0000:18:00.0: rail: expected a number from 0 to 1023"),
    ({"0000:18:00.0": {"rail": -1}}, "ports: 0000:18:00.0: rail: expected a number from 0 to 1023"),
    ({"0000:18:00.0": {"rail": True}}, "ports: 0000:18:00.0: rail: expected a number from 0 to 1023"),
])
def test_another_value_is_one_line_that_says_what_was_expected(found: Any, words: str) -> None:
    with pytest.raises(RulesError, match=re.escape(words)) as raised:
        read_ports(found, MARK)
    assert "sku.yaml:7" in str(raised.value)


def test_the_line_is_that_of_the_port_where_the_file_is_known() -> None:
    text = "ports:\n  0000:18:00.0: {}\n  mlx5_0: {}\n"
    with pytest.raises(RulesError, match=r"sku\.yaml:3"):
        read_ports(parse_yaml(text, "sku.yaml", error=RulesError)["ports"], MARK)
