"""What a node's ports are for: by its own entry, and beyond that by its kind of machine."""

from __future__ import annotations

from healthcheck.facts.site import PORT_PLANS, plans_of
from inventory.model import Node, PortPlan

A, B, C, D, E = (f"0000:{bus}:00.0" for bus in ("18", "40", "4f", "5e", "9a"))


def test_a_nodes_own_entry_counts_before_that_of_its_kind_of_machine() -> None:
    usual = {A: PortPlan("compute", 0), B: PortPlan("compute", 1), C: PortPlan("storage"),
             D: PortPlan("compute", 3)}
    own = {A: PortPlan(expect="down"), B: PortPlan(rail=7), C: PortPlan("compute", 2, expect="up"),
           D: PortPlan("management"), E: PortPlan()}
    plans = plans_of(Node("n1", "192.0.2.1", ports=own), usual, frozenset((B,)))
    assert plans.name == PORT_PLANS
    assert plans.compute == {A: 0, B: 7, C: 2, E: None}
    assert (plans.others, plans.down, plans.unread) == ({D}, {A}, {B})


def test_a_port_that_has_another_purpose_here_has_not_the_rail_that_is_usual() -> None:
    usual = {A: PortPlan("storage", 4)}
    assert plans_of(Node("n1", "192.0.2.1", ports={A: PortPlan("compute")}), usual,
                    frozenset()).compute == {A: None}


def test_a_port_whose_link_may_be_down_is_a_compute_port() -> None:
    plans = plans_of(Node("n1", "192.0.2.1", ports={A: PortPlan("storage", expect="down")}),
                     {B: PortPlan("compute", 1, expect="down")}, frozenset())
    assert (plans.down, plans.others) == ({B}, {A})
