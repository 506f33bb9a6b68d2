"""`muster fabric disable` and `enable`: ports of switches whose links do harm, turned off and on again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.fabricfiles import PLAN
from healthcheck.cli.options import INVENTORY, POLICY, STATE
from healthcheck.cli.ufmoptions import UfmAsked, ufm_options
from healthcheck.cli.wrapping import echo
from inventory.cli.chosen import who
from inventory.errors import MusterError, UsageError
from inventory.load import usual_inventory
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from healthcheck.store.portdisables import DisabledPort
    from healthcheck.subnet.model import Subnet
    from healthcheck.triage.policy import TriagePolicy
    from inventory.model import Inventory
    from provisioning.fabric.disable import PortOutcome, PortTools
    from provisioning.fabric.propose import PortProposal
    from provisioning.fabric.route import PortRoute

_HOLD_S = 900.0     # to ask, and to look again
# A subnet manager lists a port once it has swept: looks that are so many seconds apart.
_UFM_LOOKS, _UFM_AGAIN_S = 12, 5.0
_BY: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--by", "node", metavar="NODE", shell_complete=completing.node_set,
    help="The node that sees the fabric; it needs infiniband-diags and root.")
_VIA: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--via", "devices", metavar="DEVICE", multiple=True,
    help="Through this RDMA device of NODE (mlx5_0); repeatable, one for each plane.")


@click.command()
@click.argument("ports", metavar="[PORT]...", nargs=-1)
@click.option("--proposed", is_flag=True,
              help="The ports of links whose error rate is beyond its limit, or that flap.")
@_BY
@_VIA
@ufm_options
@click.option("--from", "source", metavar="FOLDER",
              help="Saved outputs of the fabric's tools instead of --by NODE; nothing is disabled then.")
@click.option("--since", metavar="FOLDER", help="Earlier outputs, with which --from FOLDER is compared.")
@click.option("--reason", metavar="TEXT", help="Why the named ports are disabled, for the ledger.")
@click.option("--apply", "act", is_flag=True, help="Disable them. Without this, nothing changes.")
@PLAN
@INVENTORY
@POLICY
@STATE
def disable(
    ports: tuple[str, ...], proposed: bool, node: str | None, devices: tuple[str, ...], ufm: UfmAsked,
    source: str | None, since: str | None, reason: str | None, act: bool, plan: str | None,
    inventory: str | None, rules: str | None, state: str | None,
) -> int:
    """Show what is lost when ports of switches are disabled, and with --apply disable them: by ibportstate on
    NODE, or through UFM, which has its subnet manager isolate them. Without PORT and --proposed: list those
    that are disabled.

    PORT is SWITCH/PORT, by name or GUID; of a host's port that of its switch is meant. A host's last link
    stays on, a leaf keeps the uplinks that the policy asks for (ports: in policy.yaml), and no switch is cut
    off. The policy bounds how many a day. A host is held for it as for firmware: it has to be idle. What was
    asked and is not read back as disabled is UNKNOWN.

    \b
    muster fabric disable --proposed --by gpu001
    muster fabric disable leaf01/9 --reason 'bit errors' --by gpu001 --apply
    muster fabric disable leaf01/9 --reason 'bit errors' --ufm https://ufm.example --apply
    muster fabric disable

    Exit: 0 done, or all may be disabled, 1 some port may not be or was not, 2 usage, 3 something is UNKNOWN.
    """
    from inventory.locate import state_dir
    from provisioning.cli.portsplanned import PortSite, PortsWanted, planned
    from provisioning.fabric.disable import settle

    folder = state_dir(state)
    if not ports and not proposed:
        if act or node or source or ufm:
            raise UsageError("give PORT or --proposed")
        return _listed(folder)
    if ports and proposed:
        raise UsageError("give PORT or --proposed, and not both")
    if (node is not None and source is not None) or not (node or source or ufm):
        raise UsageError("give --by NODE, --ufm URL, or --from FOLDER")
    if ufm and not proposed and (node is not None or source is not None):
        raise UsageError("give --ufm URL alone for ports that are named")
    if ufm and proposed and node is None:
        raise UsageError("UFM shows no counters, by which ports are proposed: give --by NODE beside --ufm")
    if source is None and since is not None:
        raise UsageError("--since goes with --from FOLDER; with --by the last check is compared with")
    if act and node is None and not ufm:
        raise UsageError("--apply needs --by NODE or --ufm URL: outputs that were saved may be old")
    if act and ports and not (reason and reason.strip()):
        raise UsageError("--apply needs --reason: the ledger keeps why")
    known = usual_inventory(inventory)
    policy = _policy(rules)
    site = PortSite(known, rules, folder, policy.ports)
    wanted = PortsWanted(ports, proposed, node, devices, source, since, reason, plan)
    route = _through_ufm(ufm) if ufm else None
    if not act:
        found = planned(wanted, site, route)
        return _shown(found.proposals, found.room, live=source is None)
    with _alone(folder, "fabric disable"):
        tools = _tools(route or _by_node(node or "", devices, known), known, rules, folder, policy)
        earlier = settle(tools)
        found = planned(wanted, site, route)
        return max(_print_outcomes(earlier), _made(found.proposals, found.subnets, tools))


@click.command()
@click.argument("ports", metavar="PORT...", nargs=-1, required=True)
@_BY
@_VIA
@ufm_options
@click.option("--reason", metavar="TEXT", help="Why, for the ledger.  [by hand]")
@click.option("--apply", "act", is_flag=True, help="Enable them. Without this, nothing changes.")
@INVENTORY
@POLICY
@STATE
def enable(
    ports: tuple[str, ...], node: str | None, devices: tuple[str, ...], ufm: UfmAsked, reason: str | None,
    act: bool, inventory: str | None, rules: str | None, state: str | None,
) -> int:
    """Show, and with --apply enable, ports that muster fabric disable has turned off. PORT is as that lists
    it, GUID/PORT, or all: those that were disabled by the same means, NODE or UFM. What somebody else
    disabled stays off.

    \b
    muster fabric enable b8cef60000000200/9 --by gpu001 --apply
    muster fabric enable all --by gpu001 --apply
    muster fabric enable all --ufm https://ufm.example --apply

    Exit: 0 enabled, or all are ours, 1 some was not, 2 usage, 3 something is UNKNOWN.
    """
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.portdisables import open_ports
    from inventory.locate import state_dir
    from provisioning.fabric import disable as acting

    folder = state_dir(state)
    if act and (node is None) == (not ufm):
        raise UsageError("--apply needs --by NODE or --ufm URL")
    if not act:
        rows: tuple[DisabledPort, ...] = ()
        if (folder / NAME).exists():
            with opened(folder) as store:
                rows = open_ports(store)
        for row in _chosen(ports, rows):
            echo(f"{_key(row)}  {row.place}: would be enabled ({row.stands})")
        return 0
    with _alone(folder, "fabric enable"):
        known = usual_inventory(inventory)
        route = _through_ufm(ufm) if ufm else _by_node(node or "", devices, known)
        tools = _tools(route, known, rules, folder, _policy(rules))
        code = _print_outcomes(acting.settle(tools))
        with opened(folder, make=True) as store:
            rows = open_ports(store)
        outcomes = [acting.enable(row, clean(reason or "by hand", 300), tools)
                    for row in _chosen(ports, rows)]
        return max(code, _print_outcomes(outcomes))


def _chosen(words: Sequence[str], rows: Sequence[DisabledPort]) -> list[DisabledPort]:
    """The rows that are named. Raises UsageError for a port that is not disabled by us."""
    if tuple(words) == ("all",):
        return list(rows)
    found = []
    for word in dict.fromkeys(words):
        fitting = [row for row in rows if word.removeprefix("0x") == _key(row)]
        if not fitting:
            raise UsageError(f"{clean(word, 80)}: muster has not disabled it; muster fabric disable lists "
                             "what it has")
        found += fitting
    return found


def _key(row: DisabledPort) -> str:
    return f"{row.guid}/{row.number}"


def _listed(folder: Path) -> int:
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.portdisables import open_ports
    from inventory.times import minute

    rows: tuple[DisabledPort, ...] = ()
    if (folder / NAME).exists():
        with opened(folder) as store:
            rows = open_ports(store)
    for row in rows:
        echo(f"{_key(row)}  {row.place}: {row.stands} since {minute(row.began)} by {row.who}: {row.why}; "
             f"{row.lost}")
    if not rows:
        echo("no port is disabled by muster")
    return 3 if any(row.held is None or row.undo is not None for row in rows) else 0


def _shown(plans: Sequence[PortProposal], room: int, *, live: bool) -> int:
    from provisioning.cli.typed import again

    may = 0
    for one in plans:
        may += not one.disable.refused
        late = "" if one.disable.refused or may <= room else f"; not now: the policy has room for {room}"
        echo(f"{one.place}: " + (f"REFUSED: {one.disable.refused}" if one.disable.refused
                                 else f"would be disabled{late}"))
        for what, said in (("why", one.disable.reason), ("lost", one.disable.lost)):
            if said:
                echo(f"  {what}: {clean(said, 300)}")
    if not plans:
        echo("no port is proposed")
    elif may:
        echo("Nothing changed. To do it: "
             + (again("--apply") if live else "look with --by NODE or --ufm URL, and --apply"))
    return int(may < len(plans) or may > room)


def _made(plans: Sequence[PortProposal], seen: Sequence[Subnet], tools: PortTools) -> int:
    """Disables what may be, one after the other; nothing more after one that is not known."""
    from provisioning.fabric.disable import PortOutcome, disable
    from provisioning.fabric.propose import links

    code, changed = 0, False
    for one in plans:
        if one.disable.refused:
            refused = PortOutcome(one.place, False, f"REFUSED: {one.disable.refused}")
            code = max(code, _print_outcomes([refused]))
            continue
        if code == 3:
            _print_outcomes([PortOutcome(one.place, False, "not begun, as one before it is not known")])
            continue
        if changed:     # the way to the next port may have led through the last one
            seen = tools.route.look()
        subnet = next((each for each in seen if each.name == one.plane), None)
        if subnet is None:
            code = max(code, _print_outcomes([PortOutcome(one.place, None, "its subnet is not seen now")]))
            continue
        changed = True
        code = max(code, _print_outcomes([disable(one, subnet, links(seen), tools)]))
    if not plans:
        echo("no port is proposed")
    return code


def _print_outcomes(outcomes: Sequence[PortOutcome]) -> int:
    """Prints each; 0 where all is done, 1 where something is not, 3 where something is not known."""
    for one in outcomes:
        echo(f"{one.place}: {clean(one.message, 400)}")
    return 3 if any(one.done is None for one in outcomes) else int(any(not one.done for one in outcomes))


def _policy(rules: str | None) -> TriagePolicy:
    from healthcheck.config.rulesfolder import folders
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.triage.policyload import load_policy

    found = folders(rules)
    return load_policy(found, load_ruleset(found))


def _alone(folder: Path, what: str) -> AbstractContextManager[None]:
    from healthcheck.config.files import make_folder
    from provisioning.fabric.disable import LOCK
    from provisioning.lease.runlock import alone

    make_folder(folder, "--state")
    return alone(folder, LOCK, what)


def _by_node(name: str, devices: Sequence[str], known: Inventory | None) -> PortRoute:
    from inventory.discover import from_names
    from inventory.select import select
    from inventory.transport.remote import RemoteTransport
    from provisioning.fabric.ibportstate import NodePorts, one_node

    nodes = list(select(known if known is not None else from_names(name), name))
    return NodePorts(one_node(nodes, name), RemoteTransport(), tuple(devices) or ("",))


def _through_ufm(ufm: UfmAsked) -> PortRoute:
    from provisioning.fabric.ufm import UfmPorts

    return UfmPorts.of(*ufm.rests())


def _tools(route: PortRoute, known: Inventory | None, rules: str | None, folder: Path,
           policy: TriagePolicy) -> PortTools:
    from provisioning.fabric.disable import PortTools
    from provisioning.fabric.ufm import UfmPorts

    tools = PortTools(folder, f"fabric disable ({who()})", route, policy.ports,
                      _holder(known, rules, folder))
    slow = isinstance(route, UfmPorts)
    return replace(tools, looks=_UFM_LOOKS, again_s=_UFM_AGAIN_S) if slow else tools


def _holder(
    known: Inventory | None, rules: str | None, folder: Path,
) -> Callable[[str], AbstractContextManager[object]]:
    """Holds the machine whose link goes. Without the inventory no one can say that it is idle."""
    def hold(host: str) -> AbstractContextManager[object]:
        from healthcheck.ruleset.ruleset import ruleset_of
        from inventory.transport.remote import RemoteTransport
        from provisioning.firmware.inband.hold import MachineHold

        if known is None or host not in known.nodes:
            raise MusterError(f"{host} is in no inventory, so that it is not proven idle")
        machines = MachineHold(folder, who(), RemoteTransport, ruleset_of(rules).skus, None,
                               "muster fabric disable")
        return machines.held(known, known.nodes[host], _HOLD_S)

    return hold
