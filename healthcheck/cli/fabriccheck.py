"""`muster fabric check`: what is wrong with the fabric, as its subnets show it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.deliveries import DELIVERY, delivered
from healthcheck.cli.fabricfiles import (
    PLAN,
    joined_adapters,
    looked,
    read_plan,
    sources,
    stored_hardware,
)
from healthcheck.cli.options import INVENTORY, RULES, STATE
from healthcheck.config.files import make_folder, write_whole
from inventory.cli.formatted import as_json as format_option
from inventory.errors import UsageError
from inventory.jobnodes import jobs_now, parse
from inventory.load import usual_inventory
from inventory.locate import state_dir
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from healthcheck.cli.ufmoptions import UfmAsked
    from healthcheck.subnet.check.findings import FabricReport
    from healthcheck.subnet.check.seen import CountedBefore, SeenSubnet
    from healthcheck.subnet.model import Subnet
    from inventory.jobnodes import JobNodes

_RATES = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")
_FOLDER = "fabric"


@click.command(short_help="Check subnet managers, links, counters and parts as the subnet shows them.")
@sources
@click.option("--since", metavar="FOLDER",
              help="Earlier outputs, with which --from FOLDER is compared. With NODE: the last check.")
@click.option("--save", metavar="FOLDER", help="Save the outputs, as --from reads them.")
@PLAN
@click.option("--width", type=click.Choice(("1", "2", "4", "8", "12")),
              help="Lanes that every link is to have, where the plan does not say.")
@click.option("--speed", type=click.Choice(_RATES),
              help="Rate that every link is to have, where the plan does not say.")
@DELIVERY
@click.option("--manager", "managers", metavar="NAME", multiple=True,
              help="A node or switch on which a subnet manager may run; repeatable. [anywhere]")
@click.option("--store", "stored", is_flag=True,
              help="Keep the findings in the store, for triage, blame and the exporter.")
@click.option("--routes", "tables", is_flag=True,
              help="Of NODE read the switches' forwarding tables, too (dump_fts). [with --jobs, --jobs-from]")
@click.option("--jobs", "ask_jobs", is_flag=True,
              help="Ask squeue here which jobs' traffic passes congested ports.")
@click.option("--jobs-from", metavar="FILE",
              help="The same by what squeue printed (--noheader --all --states=all --format='%A|%T|%N').")
@INVENTORY
@RULES
@STATE
@format_option("json: muster.fabric.check/1.")
def check(
    node: str | None, devices: tuple[str, ...], ufm: UfmAsked, lldp: str | None, source: str | None,
    since: str | None, save: str | None, plan: str | None, width: str | None, speed: str | None,
    delivery: tuple[str, ...], managers: tuple[str, ...], stored: bool, tables: bool, ask_jobs: bool,
    jobs_from: str | None, inventory: str | None, rules: str | None, state: str | None, as_json: bool,
) -> int:
    """Check the fabric as its subnet shows it to NODE, which needs infiniband-diags; as UFM knows it (--ufm);
    as lldpd on nodes knows its neighbours (--lldp); or from saved outputs.

    One master subnet manager and a standby; GUIDs and descriptions unique; switches, hosts and uplinks of
    the plan; links that are down, not active, lead elsewhere, are narrow or slow; error counters as what was
    added since the earlier check; temperature, light, fans and power supplies where a source shows them (a
    file ibdiagnet2.db_csv in --from FOLDER). Cables, optics, adapters and switches of one lot that fail far
    more often than others are named. What was not measured is unknown. With --store triage makes incidents of
    the findings. With --jobs each congested port names the jobs whose traffic may pass it.

    \b
    muster fabric check gpu001 --plan cabling.csv --store
    muster fabric check --from outputs --since yesterday --plan cabling.csv
    muster fabric check gpu001 --jobs
    muster fabric check gpu001 --via mlx5_0 --via mlx5_1 --speed NDR
    muster fabric check --ufm https://ufm.example --ufm-auth ufm.secret --plan cabling.csv
    muster fabric check --lldp 'gpu[001-128]' --plan roce.csv

    Exit: 0 nothing is wrong, 1 a warning or critical finding, 2 usage, 3 something was not measured.
    """
    from healthcheck.subnet.check import page
    from healthcheck.subnet.check.seen import FabricWanted, SeenSubnet
    from healthcheck.subnet.check.whole import check_fabric
    from healthcheck.sweep import fabricoutput
    from healthcheck.triage.fabriclots import lots_seen, with_lots
    from healthcheck.triage.partslist import by_guid

    if source is None and since is not None:
        raise UsageError("--since goes with --from FOLDER; with NODE the last check is compared with")
    if source is not None and save is not None:
        raise UsageError("--save goes with NODE, --ufm or --lldp")
    if ask_jobs and (jobs_from is not None or source is not None):
        raise UsageError("--jobs asks for the jobs of now; with --from FOLDER give --jobs-from FILE alone")
    if tables and node is None:
        raise UsageError("--routes goes with NODE; a folder has them as dump_fts")
    listed = _listed(Path(jobs_from)) if jobs_from is not None else ()
    planned = read_plan(plan) if plan is not None else None
    listed_lots = delivered(delivery)
    known = usual_inventory(inventory)
    folder = state_dir(state)
    outputs = looked(node, devices, ufm, lldp, source, known,
                   tables or ask_jobs or jobs_from is not None)
    if save is not None:
        fabricoutput.save(outputs, Path(save))
    subnets = [(output.subnet(), output.time) for output in outputs]
    before = of_folder(Path(since)) if since is not None else \
        kept(folder, subnets) if source is None else {}
    joined = joined_adapters([subnet for subnet, _ in subnets], known, folder, rules)
    wanted = FabricWanted(int(width) if width is not None else None, speed, frozenset(managers))
    report = check_fabric(
        subnets, joined, planned, wanted, before,
        [one.name for one in known if one.in_service] if known is not None else None)
    lots = by_guid(stored_hardware(folder, known).values(), listed_lots) if listed_lots else {}
    report = with_lots(report, [subnet for subnet, _ in subnets], lots)
    seen = [SeenSubnet(subnet, joined, planned, wanted, before.get(subnet.name), at, len(subnets))
            for subnet, at in subnets]
    if ask_jobs or jobs_from is not None:
        report = by_job(report, seen, listed, jobs_from)
    if source is None:
        _keep(folder, subnets)
    if as_json:
        click.echo(json.dumps(page.document(report), indent=1))
    else:
        for line in page.lines(report):
            click.echo(line)
    if stored:
        from healthcheck.cli import fabricstore

        racks = {one.name: one.rack for one in known if one.rack} if known is not None else {}
        fabricstore.keep(folder, report, seen, racks, time.time(),
                         lots_seen([subnet for subnet, _ in subnets], lots))
    return report.exit_code


def _listed(path: Path) -> Sequence[JobNodes]:
    """The jobs in what squeue printed. Raises UsageError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--jobs-from {clean(path)}: {error.strerror}") from None
    return parse(data.decode("utf-8", "backslashreplace"), clean(path))


def by_job(report: FabricReport, seen: Sequence[SeenSubnet], listed: Sequence[JobNodes],
           name: str | None) -> FabricReport:
    """The report with the jobs at its hot spots: those `listed` in the file of that name, else by squeue. One
    that does not answer is said in it, as the rest was measured."""
    from healthcheck.subnet.check.findings import FabricJobs
    from healthcheck.subnet.check.hotjobs import with_jobs

    try:
        return with_jobs(report, seen, listed if name is not None else jobs_now(), name or "squeue")
    except UsageError as problem:
        return replace(report, jobs=FabricJobs("squeue", str(problem)))


def of_folder(folder: Path) -> Mapping[str, CountedBefore]:
    """The sample in earlier saved outputs, by subnet."""
    from healthcheck.subnet.samples import sample
    from healthcheck.sweep import fabricoutput

    found = {}
    for output in fabricoutput.saved(folder):
        if output.time is not None and (made := sample(output.subnet(), output.time)) is not None:
            found[output.name] = made
    return found


def _file(folder: Path, subnet: Subnet) -> Path:
    return folder / _FOLDER / f"{subnet.name or 'subnet'}.json"


def _samples(folder: Path, subnet: Subnet) -> tuple[CountedBefore, ...]:
    """The samples that were kept; none where there is no readable file: the next check begins anew."""
    from healthcheck.subnet.samples import read

    try:
        return read(_file(folder, subnet).read_bytes())
    except (OSError, ValueError):
        return ()


def kept(folder: Path, subnets: Sequence[tuple[Subnet, float | None]]) -> Mapping[str, CountedBefore]:
    from healthcheck.subnet.samples import before

    found = {}
    for subnet, at in subnets:
        earlier = before(_samples(folder, subnet), at) if at is not None else None
        if earlier is not None:
            found[subnet.name] = earlier
    return found


def _keep(folder: Path, subnets: Sequence[tuple[Subnet, float | None]]) -> None:
    """Adds this check's samples to those that are kept; those that claim to be later are dropped, as a clock
    was ahead."""
    from healthcheck.subnet.samples import sample, write

    for subnet, at in subnets:
        made = sample(subnet, at) if at is not None else None
        if made is None:
            continue
        kept = [one for one in _samples(folder, subnet) if one.time < made.time]
        try:
            make_folder(folder / _FOLDER, "--state")
            write_whole(_file(folder, subnet), write([*kept, made]))
        except OSError as error:
            click.echo(f"muster: counters could not be kept in {clean(folder)}: {error.strerror}", err=True)
