"""Kinds of node from which a test takes things away: each is judged among healthy equals, with a snapshot of
ten minutes before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from healthcheck.model import recording as recordings
from healthcheck.model.outcome import Result
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.assess import Assessment
from inventory.model import Node
from tests.corpus.archives import unpack
from tests.healthcheck import machine, network
from tests.scenarios import node

EARLIER_S = 600.0


@dataclass
class Kind:
    """A node, what it showed before, and its healthy equals, with their earlier snapshots."""

    name: str
    seen: Recording = field(repr=False)
    earlier: Recording | None = field(repr=False)
    peers: Sequence[tuple[Recording, Recording]] = field(repr=False)
    sku: str
    _peers: dict[str, Assessment] = field(default_factory=dict, repr=False)

    def judged(self, seen: Recording, probe: str = "") -> Mapping[str, Result]:
        """What is said of this node as `seen`, by rule; only by the rules that name this probe, if one is
        given."""
        nodes = (Node(name=self.seen.node, sku=self.sku),
                 *[Node(name=peer.node, sku=self.sku) for peer, _ in self.peers])
        rules = of_probe(probe)
        if probe not in self._peers:
            among = Assessment(nodes, rules)
            for peer, before in self.peers:
                among.add(peer, before)
            self._peers[probe] = among
        held = self._peers[probe]
        one = Assessment(nodes, rules)
        one._cache, one._catalogue, one._bound = held._cache, held._catalogue, held._bound
        one._judged.update({name: replace(waiting, results=dict(waiting.results))
                            for name, waiting in held._judged.items()})
        one.add(seen, self.earlier)
        return {result.rule: result for result in one.finish().reports[0].results}


@cache
def of_probe(probe: str) -> Ruleset:
    """The packaged rules; with a probe, only those that name it."""
    rules = node.rules()
    if not probe:
        return rules
    return replace(rules,
                   rules=tuple(rule for rule in rules.rules if probe in {held.id for held in rule.probes}))


def before(seen: Recording) -> Recording:
    """The same snapshot, ten minutes earlier."""
    return node.earlier(seen, EARLIER_S)


def _by_hand(name: str, **changes: Capture) -> Kind:
    sound = [machine.recording(f"gpu00{number}", **changes) for number in range(1, 5)]
    return Kind(name, sound[0], before(sound[0]), [(peer, before(peer)) for peer in sound[1:]], "hgx-h100")


def written() -> Kind:
    """The healthy machine that tests make by hand."""
    return _by_hand("written by hand")


def over_ethernet() -> Kind:
    """The same with RoCE on all its ports, modules that say how they are, and sensors on its adapters."""
    at = "/sys/class/infiniband"
    ports = machine.ports()
    files = {path: file._replace(text="Ethernet\n") if path.endswith("/link_layer") else file
             for path, file in ports.files.items()}
    for number in range(8):
        files[f"{at}/mlx5_{number}/ports/1/gids/3"] = FileCapture(Outcome.DONE, network.ROUTABLE)
    said = {f"rail{number}": network.statistics() for number in range(8)}
    return _by_hand(
        "RoCE", port_sysfs=replace(ports, files=files), roce_sysfs=network.roce(),
        roce_ethtool=network.ethtool(**said),
        optics_hwmon=network.hwmon(), optics_mlxlink=network.mlxlink(), optics_ethtool=network.modules())


# Attributes as smartctl 7 prints them; ids and names by drivedb.h.
_ATA = ((5, "Reallocated_Sector_Ct", 5000), (9, "Power_On_Hours", 31000), (187, "Reported_Uncorrect", 12),
        (194, "Temperature_Celsius", 33),
        (197, "Current_Pending_Sector", 77), (198, "Offline_Uncorrectable", 3),
        (199, "UDMA_CRC_Error_Count", 0))


def _sata(name: str, sick: bool) -> dict[str, Any]:
    table = [{"id": number, "name": called, "value": 100, "worst": 100, "thresh": 10, "when_failed": "",
              "flags": {"value": 51, "prefailure": True},
              "raw": {"value": raw if sick or number in (9, 194) else 0, "string": str(raw)}}
             for number, called, raw in _ATA]
    return {
        "json_format_version": [1, 0], "smartctl": {"version": [7, 2], "exit_status": 0},
        "device": {"name": f"/dev/{name}", "type": "sat", "protocol": "ATA"},
        "model_name": "INTEL SSDSC2KG480G8",
        "serial_number": f"PHYG{name}", "smart_status": {"passed": True},
        "ata_smart_attributes": {"revision": 1, "table": table},
        "ata_smart_self_test_log": {"standard": {"revision": 1, "count": 1, "table": [
            {"type": {"value": 1, "string": "Short offline"},
             "status": {"value": 0, "string": "Completed without error", "passed": True},
             "lifetime_hours": 30000}]}},
    }


def _sas(name: str, defects: int) -> dict[str, Any]:
    return {
        "json_format_version": [1, 0], "smartctl": {"version": [7, 2], "exit_status": 0},
        "device": {"name": f"/dev/{name}", "type": "scsi", "protocol": "SCSI"},
        "model_name": "SEAGATE ST600MM0069",
        "serial_number": f"WAF{name}", "smart_status": {"passed": True}, "scsi_grown_defect_list": defects,
        "scsi_percentage_used_endurance_indicator": 4,
        "scsi_error_counter_log": {way: {"errors_corrected_by_eccfast": 10, "total_errors_corrected": 10,
                                         "total_uncorrected_errors": 0}
                                   for way in ("read", "write", "verify")},
    }


def _disks(sick: bool) -> dict[str, Capture]:
    said = {f"/sys/class/nvme/nvme{n}": file for n, file in enumerate(machine.smart(1).files.values())}
    documents = {"sda": _sata("sda", False), "sdb": _sata("sdb", sick), "sdc": _sas("sdc", 0),
                 "sdd": _sas("sdd", 900 if sick else 0)}
    said |= {f"/sys/block/{name}": FileCapture(Outcome.DONE, f"exit 0\n{json.dumps(text)}")
             for name, text in documents.items()}
    states = {name: {"removable": "0", "device/state": "running", "device/model": "INTEL SSDSC2KG480G8",
                     "device/iodone_cnt": "0x1d4c0",
                     "device/ioerr_cnt": "0x2c", "device/iotmo_cnt": "0x0"} for name in documents}
    if sick:
        states["sda"]["device/state"] = "offline"
    return {
        "disk_smart": Capture(Outcome.DONE, seconds=0.2, bytes=1, files=said),
        "disk_scsi": machine.done(**{f"/sys/block/{name}/{file}": f"{text}\n"
                                     for name, files in states.items() for file, text in files.items()}),
        "raid_md": machine.done(**{f"/sys/block/md0/md/{name}": f"{text}\n" for name, text in {
            "level": "raid1", "raid_disks": "2", "array_state": "clean", "degraded": "1" if sick else "0",
            "sync_action": "frozen" if sick else "idle",
            "sync_completed": "none", "mismatch_cnt": "12" if sick else "0",
            "dev-sda2/state": "faulty" if sick else "in_sync",
            "dev-sdb2/state": "in_sync"}.items()}),
    }


def with_disks() -> Kind:
    """The same with SATA and SAS disks and a mirror of two."""
    return _by_hand("SATA and SAS", **_disks(False))


def with_sick_disks() -> Kind:
    """The same with faults on some of the disks, among sound equals."""
    sound = with_disks()
    seen = machine.recording("gpu001", **_disks(True))
    return replace(sound, name="SATA and SAS, sick", seen=seen, earlier=before(seen), _peers={})


class Recorded:
    """The recorded fleet of a DGX H100: its healthy nodes, and one for each planted fault."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        unpack("scenarios", folder)
        self.names = sorted(path.stem for path in (folder / "nodes").glob("*.json"))
        self._peers = [(self._read("nodes", f"gpu00{number}"), self._read("previous", f"gpu00{number}"))
                       for number in range(2, 9)]
        self._held: dict[str, Assessment] = {}

    def _read(self, which: str, name: str) -> Recording:
        return recordings.from_json(json.loads((self._folder / which / f"{name}.json").read_text()))

    def kind(self, name: str) -> Kind:
        """The node of this name, which is that of its fault."""
        previous = (self._folder / "previous" / f"{name}.json").exists()
        return Kind(name, self._read("nodes", name), self._read("previous", name) if previous else None,
                    self._peers, "dgx-h100", self._held)
