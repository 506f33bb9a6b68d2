"""Hardware RAID: controllers, volumes, drives and batteries, as the controllers' own tools print them.

A controller without a tool is not measured, and says which one to install; of its volumes and drives nothing
is judged then. Controllers whose tools are not read (HPE's, Adaptec's), and disks that a controller passes on
as they are, are no subject here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from healthcheck.facts import storcli
from healthcheck.facts.base import Captures, fact
from healthcheck.facts.gpu import PCI
from healthcheck.facts.nvme import NVME
from healthcheck.facts.parsing import member
from healthcheck.facts.raid_tools import (
    MAIN,
    OTHERS,
    TOOLS,
    Family,
    answers_of,
    boot_tools,
    here,
    no_tool,
    on_pci,
    printed,
)
from healthcheck.facts.scsi import SCSI
from healthcheck.facts.storcli import Response
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, changed, first_unread, partial_if
from inventory.text import clean

NO_CONTROLLER = "hardware RAID (no controller here)"


class RaidController(Fact):
    """One controller ("controller 0 (PERC H755 Front)"). `status` is its own word ("Optimal"); `explained`:
    a volume, a drive or a battery of it is not well, which other rules report. `memory_errors` are those of
    its cache that could not be corrected."""

    name: str
    status: str
    explained: bool
    memory_errors: int


class RaidVolume(Fact):
    """One volume ("volume 0/0 of controller 0 (RAID6)"). `state` is optimal, degraded, partially degraded,
    offline, recovering, failed or missing; `why` says which of its drives is the cause, or what is done.
    `rebuilding`: all that it lacks is being rebuilt."""

    name: str
    state: str
    why: str
    rebuilding: bool


class RaidDrive(Fact):
    """One drive behind a controller ("drive 252:3 of controller 0 (ST16000NM001G)"). `state` is in the words
    of `healthcheck.facts.storcli`; `named`: a volume that is not optimal names it already. `foreign`: it
    holds a configuration of another controller. `failing`: how it says that it will fail, empty where it does
    not. `media_errors` count since the controller has it."""

    name: str
    state: str
    named: bool
    foreign: bool
    failing: str
    media_errors: int


class RaidBattery(Fact):
    """What keeps a controller's cache when the power goes: a battery, or a capacitor (CacheVault). `state` is
    the tool's word."""

    name: str
    state: str


def _label(response: Response) -> str:
    return f"controller {response.number}"


@fact("raid_controllers", PCI, besides=(*TOOLS, SCSI, NVME), each="raid_controller")
def raid_controllers(captures: Captures) -> Any:
    """Every hardware RAID controller; one entry, all UNSUPPORTED, where there is none."""
    bus = captures.once(on_pci)
    found: list[RaidController] = []
    for family in here(captures):
        addresses = bus[family.driver]
        try:
            answers = captures.once(MAIN[family.controllers.id])
        except Unread as error:
            names = [f"controller {pci} ({family.driver})" for pci in addresses]
            found += [_toolless(name, f"a RAID controller, and no tool to ask it: install {family.tool}")
                      if no_tool(captures, family.controllers)
                      else RaidController.absent(name, Unmeasured(str(error))) for name in names]
            continue
        found += [_controller(answer) for answer in answers]
        seen = {storcli.pci_address(answer.data) for answer in answers}
        # Where an address is not shown, the number counts.
        unseen = addresses[len(answers):] if "" in seen else [pci for pci in addresses if pci not in seen]
        found += [RaidController.absent(f"controller {pci} ({family.driver})", Unmeasured(
            f"the tool that is installed does not find it: install {family.tool}")) for pci in unseen]
    found += [RaidController.absent(f"controller {pci} ({driver}, whose tool is not read)")
              for driver in OTHERS for pci in bus.get(driver, ())]
    for probe, disk in captures.once(boot_tools).items():
        if no_tool(captures, probe):
            found.append(_toolless(f"boot mirror {disk}", "a boot mirror (BOSS), and no tool to ask it: "
                                   f"install {probe.argv[0]} (Marvell, Dell)"))
    return tuple(found) or (RaidController.absent(NO_CONTROLLER),)


def _toolless(name: str, reason: str) -> RaidController:
    """A controller that cannot be asked for want of a tool: that is said once."""
    return changed(RaidController.absent(name), status=Unmeasured(reason))


def _controller(response: Response) -> RaidController:
    status = member(response.data, "Status", "Controller Status")
    unwell = ([_volume_state(row) for row in _rows(response, "VD LIST", "Virtual Drives")[0]]
              + [battery for _, battery in _batteries(response) if battery != "Optimal"])
    drives = [storcli.drive_state(row) for row in _rows(response, "PD LIST", "Physical Drives")[0]]
    shown: Any = (clean(status, 40) if isinstance(status, str) and status
                  else Unmeasured("Controller Status is not shown"))
    return RaidController(
        name=f"{_label(response)} ({storcli.model(response.data)})",
        status=shown,
        explained=any(state != storcli.OPTIMAL for state in unwell) or any(
            state not in storcli.SOUND for state in drives),
        memory_errors=storcli.number(member(response.data, "Status", "Memory Uncorrectable Errors"),
                                     "Memory Uncorrectable Errors"),
    )


def _rows(response: Response, name: str, count: str) -> tuple[list[dict[str, Any]], str]:
    return storcli.table(response.data, name, count)


def _volume_state(row: Mapping[str, Any]) -> Any:
    return storcli.volume_state(row.get("State"))


def _everywhere(captures: Captures, what: str) -> tuple[list[Response], list[Fact], list[str]]:
    """What the tools print of each controller; beside it, why a family has nothing to judge: its tool is
    missing (an entry that is UNSUPPORTED) or failed (a reason)."""
    answers: list[Response] = []
    lacking: list[Fact] = []
    failed: list[str] = []
    for family in here(captures):
        try:
            answers += captures.once(MAIN[family.controllers.id])
        except Unread as error:
            if no_tool(captures, family.controllers):
                lacking.append(_KINDS[what].absent(f"{what} ({family.tool} is not installed)"))
            else:
                failed.append(str(error))
    return answers, lacking, failed


def _whole(found: list[Any], failed: list[str], what: str) -> Any:
    if failed and not found:
        raise Unread(failed[0])
    made = tuple(found) or (_KINDS[what].absent(f"{what} (none here)"),)
    return partial_if(made, failed[0] if failed else None)


@fact("raid_volumes", PCI, besides=(*TOOLS, SCSI, NVME), each="raid_volume")
def raid_volumes(captures: Captures) -> Any:
    """Every volume of a hardware RAID controller, boot mirrors among them."""
    answers, found, failed = _everywhere(captures, VOLUMES)
    for response in answers:
        rows, short = _rows(response, "VD LIST", "Virtual Drives")
        failed += [f"{_label(response)}: {short}"] if short else []
        for row in rows:
            at, level = clean(str(row.get("DG/VD", "?")), 12), clean(str(row.get("TYPE", "?")), 12)
            cause, rebuilding = _cause(response, at.partition("/")[0])
            found.append(RaidVolume(f"volume {at} of {_label(response)} ({level})", _volume_state(row), cause,
                                    rebuilding))
    for probe in captures.once(boot_tools):
        if no_tool(captures, probe):
            found.append(RaidVolume.absent(f"boot mirror ({probe.argv[0]} is not installed)"))
            continue
        try:
            found += [RaidVolume(f"boot mirror {name}", state, progress, "rebuild" in progress.lower())
                      for name, state, progress in storcli.marvell(printed(captures, probe))]
        except Unread as error:
            failed.append(f"{probe.argv[0]}: {error}")
    return _whole(found, failed, VOLUMES)


def _cause(response: Response, group: str) -> tuple[str, bool]:
    """The drives of a group that are not online, in words: by the list of drives, and by the groups' layout
    those that are missing; and whether each of them is being rebuilt."""
    rows, _ = _rows(response, "PD LIST", "Physical Drives")
    drives = [f"drive {storcli.place(row)} {state}" for row in rows if str(row.get("DG")).strip() == group
              and (state := storcli.drive_state(row)) not in (storcli.ONLINE, "a spare")
              and isinstance(state, str)]
    layout, _ = storcli.table(response.data, "TOPOLOGY", "Drive Groups")
    missing = sum(str(row.get("DG")) == group and row.get("Type") == "DRIVE"
                  and storcli.drive_state(row) == storcli.MISSING for row in layout)
    listed = sum(drive.endswith(storcli.MISSING) for drive in drives)
    gone = [f"{missing} missing"] if missing > listed else []
    rebuilding = bool(drives) and not gone and all(drive.endswith(storcli.REBUILDING) for drive in drives)
    return ", ".join(drives[:8] + gone), rebuilding


@fact("raid_drives", PCI, besides=TOOLS, each="raid_drive")
def raid_drives(captures: Captures) -> Any:
    """Every drive behind a hardware RAID controller."""
    answers, found, failed = _everywhere(captures, DRIVES_HERE)
    counted: dict[str, Mapping[str, Any] | Unmeasured] = {}
    for family in here(captures):
        if not no_tool(captures, family.drives):
            counted |= _counted(captures, family)
    for response in answers:
        rows, short = _rows(response, "PD LIST", "Physical Drives")
        failed += [f"{_label(response)}: {short}"] if short else []
        sick = {str(row.get("DG/VD")).partition("/")[0]
                for row in _rows(response, "VD LIST", "Virtual Drives")[0]
                if _volume_state(row) != storcli.OPTIMAL}
        found += [_drive(response, row, counted.get(response.number), sick) for row in rows]
    return _whole(found, failed, DRIVES_HERE)


def _counted(captures: Captures, family: Family) -> dict[str, Mapping[str, Any] | Unmeasured]:
    """What each controller of a family, by its number, counted of its drives."""
    try:
        answers = answers_of(captures, family.drives)
    except Unread as error:
        numbers = [answer.number for answer in captures.once(MAIN[family.controllers.id])]
        return dict.fromkeys(numbers, Unmeasured(str(error)))
    return {answer.number: storcli.of_drives(answer.data) for answer in answers}


def _drive(response: Response, row: Mapping[str, Any], counted: Mapping[str, Any] | Unmeasured | None,
           sick: set[str]) -> RaidDrive:
    at, group = storcli.place(row), str(row.get("DG")).strip()
    # A drive that hangs on no enclosure is not in the command's answer.
    errors: Any = counted if isinstance(counted, Unmeasured) else (counted or {}).get(at) or (
        Unmeasured(f"the counters of drive {at} were not shown") if ":" in at else UNSUPPORTED)

    def of(what: str) -> Any:
        return getattr(errors, what) if isinstance(errors, storcli.DriveErrors) else errors

    return RaidDrive(
        name=f"drive {at} of {_label(response)} ({clean(str(row.get('Model', '?')), 40).strip()})",
        state=storcli.drive_state(row), named=group in sick, foreign=group == "F",
        failing=_failing(of("predicted"), of("alert")), media_errors=of("media"))


def _failing(predicted: Any, alert: Any) -> Any:
    """By the drive's warnings or by its SMART: each counts where the other was not read."""
    if isinstance(predicted, int) and predicted:
        return f"{predicted} warnings that it will fail"
    if alert is True:
        return "its SMART says that it fails"
    none = predicted is UNSUPPORTED and alert is UNSUPPORTED
    return first_unread((predicted, alert)) or (UNSUPPORTED if none else "")


@fact("raid_batteries", PCI, besides=TOOLS, each="raid_battery")
def raid_batteries(captures: Captures) -> Any:
    """The battery or capacitor of every hardware RAID controller that has one."""
    answers, found, failed = _everywhere(captures, BATTERIES)
    found += [RaidBattery(f"{kind} of {_label(response)}", state)
              for response in answers for kind, state in _batteries(response)]
    return _whole(found, failed, BATTERIES)


def _batteries(response: Response) -> Iterator[tuple[str, Any]]:
    """Kind and state of each, in each of the tools' forms."""
    for name, kind, word in (("BBU_Info", "battery", "State"), ("Cachevault_Info", "CacheVault", "State"),
                             ("Energy Pack Info", "energy pack", "Status")):
        rows, _ = storcli.table(response.data, name, "")
        for row in rows:
            state = clean(str(row.get(word, "")), 40).strip()
            yield kind, state or Unmeasured(f"the state of the {kind} is not shown")


VOLUMES, DRIVES_HERE, BATTERIES = "RAID volumes", "drives behind a RAID controller", "RAID batteries"
_KINDS: Mapping[str, Any] = {VOLUMES: RaidVolume, DRIVES_HERE: RaidDrive, BATTERIES: RaidBattery}
