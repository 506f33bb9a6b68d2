"""`muster bmc show|hardware|firmware|bios|log|sensors|check`: what controllers report, and rules on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from inventory.model import Node
from inventory.reasons import fold_reasons
from provisioning.cli.bmccommon import (
    JSON,
    NODES,
    BmcOptions,
    document,
    options,
    print_lines,
    question,
)

if TYPE_CHECKING:
    from pathlib import Path

    from healthcheck.store.parts import ControllerPart
    from provisioning.bmc.base import Controller, HardwarePart

_KEPT = ("psu", "dimm", "cpu", "switch")       # GPUs, drives and adapters are known by sweeps


def _request(
    nodes: str, bmc: BmcOptions, json: bool, ask: Callable[[Controller], Any],
    lines: Callable[[Any], Iterable[str]], *, one_line: bool = False,
    keep: Callable[[Node, Any], None] | None = None,
) -> int:
    """Asks all controllers, prints answers as they come, then why others gave none; the exit code."""
    from provisioning.bmc.base import BmcError
    from provisioning.bmc.page import value

    named, _ = bmc.chosen(nodes)
    reported: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for node, found in bmc.ask(named, ask):
        if isinstance(found, BmcError):
            wrong[node.name] = f"{found.wrong.value}: {found.message}"
            reported[node.name] = {"error": {"wrong": found.wrong.value, "said": found.message}}
            continue
        if keep is not None:
            keep(node, found)
        if json:
            reported[node.name] = value(found)
        else:
            print_lines(node.name, lines(found), one_line=one_line)
    if json:
        document(named, reported)
    else:
        _print_folded((node.name, f"? {wrong[node.name]}") for node in named if node.name in wrong)
    return 3 if wrong else 0


def _print_folded(reasons: Iterable[tuple[str, str]]) -> None:
    """The reasons with their nodes, equal ones once."""
    for each in fold_reasons(reasons):
        print_lines(each.names, [each.text], one_line=True)


@question
def show(nodes: str, bmc: BmcOptions, as_json: bool) -> int:
    """Show each machine's identity, power state, firmware and next boot device; a line each, as they answer.

    \b
    muster bmc show @rack7
    muster bmc show gpu007 --format json | jq '.nodes[].identity.serial'

    Exit: 0 all answered, 2 usage, 3 some did not.
    """
    from provisioning.bmc import page
    from provisioning.bmc.base import BmcError

    def asked(controller: Controller) -> Any:
        def try_(ask: Callable[[], Any]) -> Any:
            try:
                return ask()
            except BmcError as problem:
                return problem
        found = {
            "identity": controller.identity(), "power": try_(controller.power), "boot": try_(controller.boot)}
        earlier = try_(controller.earlier)
        return {**found, "changes": earlier} if earlier else found

    def shown(message: Any) -> Iterable[str]:
        yield page.summary((message["identity"], message["power"], message["boot"]))
        yield from page.changes(message.get("changes", ()))

    return _request(nodes, bmc, as_json, asked, shown, one_line=True)


def media_lines(nodes: str, bmc: BmcOptions) -> int:
    """Prints what is in the virtual drives; for `muster bmc media NODES show`."""
    from provisioning.bmc import page

    return _request(nodes, bmc, False, lambda controller: controller.media(), page.media)


@click.command()
@NODES
@click.option("--store", "keep", is_flag=True,
              help="Keep in the store where power supplies, memory modules, processors and switches sit.")
@JSON
@options
def hardware(nodes: str, bmc: BmcOptions, as_json: bool, keep: bool) -> int:
    """Show what each controller of NODES reports: processors, GPUs, memory, drives, network, power supplies,
    fans.

    The JSON has each part with its serial number. The text counts parts and names faulty ones. --store keeps
    the serial numbers that no sweep reads: muster history --serial NUMBER says where a part sits and has sat.

    \b
    muster bmc hardware gpu007
    muster bmc hardware @rack7 --format json > rack7.json
    muster bmc hardware @rack7 --store

    Exit: 0 all answered, 2 usage, 3 some did not.
    """
    from provisioning.bmc import page

    return _request(nodes, bmc, as_json, lambda controller: {"hardware": controller.hardware().parts},
                    lambda message: page.hardware(message["hardware"]),
                    keep=_keeper(bmc.folder) if keep else None)


def _keeper(folder: Path) -> Callable[[Node, Any], None]:
    """What writes the parts of one node into the store."""
    from healthcheck.store import parts
    from healthcheck.store.file import opened

    def keep(node: Node, message: Any) -> None:
        found = [one for kind in _KEPT if isinstance(listed := message["hardware"].get(kind), tuple)
                 for part in listed if (one := _kept(kind, part)) is not None]
        with opened(folder, make=True) as store:
            parts.by_controller(store, node.name, found, time.time())
    return keep


def _kept(kind: str, part: HardwarePart) -> ControllerPart | None:
    """A part with its number, or an empty place; None where the controller does not give the number."""
    from healthcheck.store.parts import ControllerPart
    from healthcheck.store.readings import is_number
    from inventory.text import clean

    serial = clean(part.serial.strip(), 64) if part.present and isinstance(part.serial, str) else ""
    if part.present and not is_number(serial):
        return None
    # Places of several kinds may have one name, such as 1.
    slot = part.slot if part.slot.lower().startswith(kind) else f"{kind} {part.slot}"
    return ControllerPart(kind, clean(slot, 64), serial)


@question
def firmware(nodes: str, bmc: BmcOptions, as_json: bool) -> int:
    """Show the firmware versions in use in each machine of NODES.

    \b
    muster bmc firmware gpu007

    Exit: 0 all answered, 2 usage, 3 some did not.
    """
    from provisioning.bmc import page

    return _request(nodes, bmc, as_json, lambda controller: {"firmware": controller.firmware()},
                    lambda message: page.firmware(message["firmware"]))


@question
def bios(nodes: str, bmc: BmcOptions, as_json: bool) -> int:
    """Show the BIOS settings of each machine of NODES, and those pending until the next reset.

    \b
    muster bmc bios gpu007 | grep -i sriov

    Exit: 0 all answered, 2 usage, 3 some did not.
    """
    from provisioning.bmc import page

    return _request(nodes, bmc, as_json, lambda controller: {"bios": controller.bios()},
                    lambda message: page.bios(message["bios"]))


@question
def log(nodes: str, bmc: BmcOptions, as_json: bool) -> int:
    """Show the active events of each controller's log, oldest first. Nothing is ever cleared.

    \b
    muster bmc log gpu007

    Exit: 0 all answered, 2 usage, 3 some did not.
    """
    from provisioning.bmc import page
    from provisioning.bmc.base import BmcError, LogReading

    def asked(controller: Controller) -> Any:
        found = controller.log()
        read = {"log": found.log, **({"missing": found.missing} if found.missing else {})}
        try:
            return {**read, "use": controller.log_use()}
        except BmcError as problem:
            return {**read, "use": problem}

    return _request(nodes, bmc, as_json, asked,
                    lambda message: page.log(LogReading(message["log"], message.get("missing", "")),
                                             message["use"]))


@question
def sensors(nodes: str, bmc: BmcOptions, as_json: bool) -> int:
    """Show the sensors of each machine of NODES, those beyond a threshold first.

    \b
    muster bmc sensors gpu007

    Exit: 0 all answered, 2 usage, 3 some did not.
    """
    from provisioning.bmc import page

    return _request(nodes, bmc, as_json, lambda controller: {"sensors": controller.sensors().sensors},
                    lambda message: page.sensors(message["sensors"]))


@click.command()
@NODES
@click.option("--rules", metavar="DIR", help="A folder of site rules that override the packaged ones by id.")
@JSON
@options
def check(nodes: str, rules: str | None, bmc: BmcOptions, as_json: bool) -> int:
    """Judge event log and sensors of NODES out of band, by the rules that `muster check` judges them by on
    the node.

    \b
    muster bmc check @rack7
    muster explain bmc-sel-critical

    Exit: 0 fine, 1 a warning or critical FAIL, 2 usage, 3 something unknown. Only nodes in service count.
    """
    from healthcheck.model.outcome import NodeState
    from healthcheck.report.document import node as report_document
    from healthcheck.ruleset.ruleset import ruleset_of
    from provisioning.bmc.judge import facts, judged, lines, log_days, rules_of

    used = rules_of(ruleset_of(rules).rules)
    days = log_days(used)
    named, _ = bmc.chosen(nodes)
    reported: dict[str, Any] = {}
    states: set[NodeState] = set()
    counted: list[Node] = []
    unasked: list[tuple[str, str]] = []
    order = {node.name: number for number, node in enumerate(named)}
    for node, found in bmc.ask(named, lambda controller: facts(controller, time.time(), days)):
        report = judged(node, used, found)
        if node.in_service:
            counted.append(node)
            states.add(report.state)
        if as_json:
            reported[node.name] = report_document(report)
        elif report.reason:     # nothing could be asked
            unasked += ((node.name, line) for line in lines(report))
        else:
            print_lines(node.name, lines(report), one_line=True)
    _print_folded(sorted(unasked, key=lambda each: order[each[0]]))
    if as_json:
        document(named, reported)
    elif not counted:
        click.echo(
            "muster: none of these nodes is in service, so the exit code counts none of them", err=True)
    if states & {NodeState.UNHEALTHY, NodeState.DEGRADED}:
        return 1
    return 3 if NodeState.UNKNOWN in states else 0
