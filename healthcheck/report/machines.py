"""Nodes that another machine stands for, in words: for the plan of triage and the table of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from healthcheck.store.machines import AnotherMachine
from inventory.nodeset import fold
from inventory.times import minute


def lines(machines: Sequence[AnotherMachine]) -> Iterator[str]:
    """A line for each, and one for two that changed places, with the command that brings them up again."""
    named: set[str] = set()
    for one in machines:
        if one.node in named:
            continue
        names = sorted((one.node, one.origin)) if one.swapped else [one.node]
        named.update(names)
        again = f"muster check {fold(names)} --profile bringup --store"
        if one.swapped:
            yield (f"swapped   {fold(names)}: {names[0]} and {names[1]} changed places at {minute(one.at)} "
                   f"({_count(one)}): swap them back or correct the inventory, or bring both up again: "
                   f"{again}")
        else:
            yield f"replaced  {one.node}: {words(one)}: bring it up again: {again}"


def words(one: AnotherMachine) -> str:
    """One of them, in a few words."""
    if one.swapped:
        return f"it changed places with {one.origin} at {minute(one.at)}, {_count(one)}"
    origin = f", which sat in {one.origin} before" if one.origin else ""
    return f"another machine since {minute(one.at)}, {_count(one)}{origin}"


def _count(one: AnotherMachine) -> str:
    return f"{one.others} of {one.parts} parts with a number are others"
