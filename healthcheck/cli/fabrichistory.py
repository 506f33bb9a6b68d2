"""`muster fabric history`: which links were down, how often, and what no restart explains."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.fabricfiles import joined_adapters
from healthcheck.cli.options import INVENTORY, RULES, STATE
from healthcheck.cli.ufmoptions import ufm_options
from healthcheck.subnet.model import Subnet
from inventory.cli.formatted import as_json as format_option
from inventory.errors import UsageError
from inventory.load import usual_inventory
from inventory.locate import state_dir
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from healthcheck.cli.ufmoptions import UfmAsked
    from healthcheck.subnet.readers.ufmevents import UfmEvents
    from healthcheck.sweep.fabricoutput import FabricOutput, ToolOutput
    from healthcheck.sweep.ufmrest import UfmRest


@click.command(short_help="Which links were down, how often, and what no restart explains.")
@click.option("--from", "source", metavar="FOLDER",
              help="Saved outputs of the fabric's tools, which say what is joined to what.")
@click.option("--events", "files", metavar="FILE", multiple=True,
              help="UFM's event log, or its events as JSON; repeatable.")
@ufm_options
@click.option("--save", metavar="FOLDER", help="Save what UFM answered, as --from and --events read it.")
@click.option("--node", metavar="NAME", help="Only links of this node, or of this switch by name or GUID.")
@click.option("--link", metavar="WORDS", help="Only links whose names hold these words ('leaf01 port 3').")
@INVENTORY
@RULES
@STATE
@format_option("json: muster.fabric.history/1.")
def history(
    source: str | None, files: tuple[str, ...], ufm: UfmAsked, save: str | None, node: str | None,
    link: str | None, inventory: str | None, rules: str | None, state: str | None, as_json: bool,
) -> int:
    """Tell restarts of hosts and switches from links that went down by themselves, by UFM's events: its log
    (event.log), or what GET /ufmRest/app/events answered. With --ufm it is asked for what --from and --events
    do not give.

    All links of a host or switch that go down within 30 seconds and are all back within 30 minutes are its
    restart. Everything else is an outage of its link, with how often and how long. A device with one link is
    never said to have restarted. Whose an adapter is, the inventory and the store say. Times are those of
    UFM's clock. It changes nothing.

    \b
    muster fabric history --from outputs --events event.log
    muster fabric history --from outputs --events events.json --node gpu001
    muster fabric history --from outputs --events event.log --link 'leaf01 port 3' --format json
    muster fabric history --ufm https://ufm.example --ufm-auth ufm.secret

    Exit: 0 no outage, 1 a link was down and no restart explains it, 2 usage or a file that cannot be read,
    3 something is unknown: events that are not understood, or outputs that ended early.
    """
    from healthcheck.subnet import historypage, linkhistory
    from healthcheck.subnet.check.seen import SeenSubnet
    from healthcheck.subnet.readers import ufmevents
    from healthcheck.sweep import fabricoutput

    if not ufm and (source is None or not files):
        raise UsageError("give --from FOLDER and --events FILE, or --ufm URL")
    if ufm and source is not None and files:
        raise UsageError("--from FOLDER and --events FILE say all: --ufm is for what they do not")
    if save is not None and not ufm:
        raise UsageError("--save goes with --ufm")
    rests = ufm.rests() if ufm else ()
    asked = tuple(_asked(one, source is None, not files, several=len(rests) > 1) for one in rests)
    if save is not None:
        fabricoutput.save([output for output, _ in asked], Path(save))
    outputs = (fabricoutput.saved(Path(source)) if source is not None
               else tuple(output for output, _ in asked))
    subnets = [subnet for output in outputs if not (subnet := output.subnet()).ethernet]
    if not subnets:
        raise UsageError(f"{clean(source)}: UFM sees InfiniBand, and only Ethernet is there")
    read = [_events(name) for name in files] or [
        ufmevents.read(events.text, "UFM", events.cut) for _, events in asked]
    joined = joined_adapters(subnets, usual_inventory(inventory), state_dir(state), rules)
    whole = _whole(subnets)
    owners = {guid: place.node for guid, place in joined.adapters.items()}
    found = linkhistory.history(
        whole, [event for one in read for event in one.links], owners,
        [event for one in read for event in one.devices])
    times = [at for one in read for at in (one.first, one.last) if at is not None]
    shown = historypage.HistoryShown(
        found, SeenSubnet(whole, joined), sum(one.number for one in read), min(times, default=None),
        max(times, default=None), (*(line for one in read for line in one.unread), *whole.unread,
                                   *(("outputs ended early: a host may have more links than they show",)
                                     if whole.partial else ()),
                                   *(("whose the adapters are: a host that restarted shows as outages of its "
                                      "links; give an inventory",) if found.outages and not owners else ())))
    if node is not None:
        if not shown.knows_node(node):
            raise UsageError(f"--node {clean(node, 100)}: neither outputs nor events show a link of it")
        shown = shown.of_node(node)
    if link is not None:
        if not any(link in shown.link_name(one) for one in shown.links()):
            raise UsageError(f"--link {clean(link, 100)}: is in the name of no link, such as 'leaf01 port 3'")
        shown = shown.of_links(link)
    if as_json:
        click.echo(json.dumps(historypage.document(shown), indent=1))
    else:
        for line in historypage.lines(shown):
            click.echo(line)
    return shown.exit_code


def _asked(ufm: UfmRest, ports: bool, events: bool, *, several: bool) -> tuple[FabricOutput, ToolOutput]:
    """What UFM is asked for, as one output, and its events. Raises UfmError."""
    from healthcheck.sweep import ufmoutput
    from healthcheck.sweep.fabricoutput import FabricOutput, ToolOutput

    name = ufmoutput.name_of(ufm) if several else ""
    output = replace(ufmoutput.ask([ufm])[0], name=name) if ports else FabricOutput(name, {}, time.time())
    found = ufmoutput.events(ufm) if events else ToolOutput("[]")
    more = {ufmoutput.EVENTS: found} if events else {}
    return replace(output, outputs={**output.outputs, **more}), found


def _events(name: str) -> UfmEvents:
    """The events in a file. Raises UsageError for one that cannot be read, or is compressed."""
    from healthcheck.subnet.readers import ufmevents

    try:
        with Path(name).open("rb") as file:
            data = file.read(ufmevents.MOST_EVENTS_TEXT + 1)
    except OSError as error:
        raise UsageError(f"--events {clean(name)}: {error.strerror}") from None
    if data.startswith(b"\x1f\x8b"):
        raise UsageError(f"--events {clean(name)}: is compressed; give what gunzip makes of it")
    cut = len(data) > ufmevents.MOST_EVENTS_TEXT
    text = data[:ufmevents.MOST_EVENTS_TEXT].decode("utf-8-sig", errors="surrogateescape")
    return ufmevents.read(text, clean(Path(name).name, 100), cut)


def _whole(subnets: Sequence[Subnet]) -> Subnet:
    """All subnets as one: a host that restarts takes its links in each of them along."""
    return Subnet("", {guid: device for one in subnets for guid, device in one.devices.items()},
                  unread=tuple(line for one in subnets for line in one.unread),
                  partial=any(one.partial for one in subnets))
