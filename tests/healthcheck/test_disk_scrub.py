"""What disks, arrays and fstab say of whose machine it is gives way to stand-ins when a recording is
scrubbed; what is judged stays."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from healthcheck.model import recording as recordings
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.scrub import scrub
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULES, findings_of, verdict
from tests.healthcheck.raid import (
    MVCLI,
    boss,
    controller,
    counters,
    drive,
    drives,
    newer,
    newer_drives,
    perc,
    tri_mode,
    volume,
)

FSTAB = (
    "UUID=5a1e7c1e-0a43-4fd1-9a0c-2f6d3d5b8f11 / ext4 errors=remount-ro 0 1\n"
    "filer7.acme-labs.example:/export/secretproject /mnt/secretproject nfs4 rw,hard 0 0\n"
)
SMART = json.dumps({
    "smartctl": {"exit_status": 0, "argv": ["smartctl", "-j", "-a", "/dev/nvme0"]},
    "model_name": "SAMSUNG MZWLJ3T8HBLS-00007",
    "serial_number": "S64FNE0R903600", "firmware_version": "EPK9CB5Q", "smart_status": {"passed": False},
    "wwn": {"naa": 5, "oui": 9528, "id": 53114427311},
    "nvme_namespaces": [{"id": 1, "eui64": {"oui": 9528, "ext_id": 645522839403}}],
    "nvme_smart_health_information_log": {"critical_warning": 4, "media_errors": 12,
                                          "data_units_written": 123456789},
}, indent=2)


def test_serial_numbers_names_of_servers_and_unique_ids_of_disks_are_replaced_and_what_is_judged_stays(
) -> None:
    files = {f"/sys/class/nvme/nvme0/{name}": FileCapture(Outcome.DONE, text) for name, text in
             {"serial": "S64FNE0R903600\n", "model": "SAMSUNG MZWLJ3T8HBLS-00007\n", "state": "dead\n",
              "firmware_rev": "EPK9CB5Q\n",
              "transport": "pcie\n", "address": "0000:01:00.0\n"}.items()}
    seen = machine.recording(
        nvme_sysfs=Capture(Outcome.DONE, files=files), filesystem_plan=machine.done(**{"/etc/fstab": FSTAB}),
        disk_smart=Capture(Outcome.DONE,
                           files={"/sys/class/nvme/nvme0": FileCapture(Outcome.DONE, f"exit 8\n{SMART}")}),
    )
    scrubbed = scrub(seen, Node(name="gpu001"), key=b"k" * 32).recording
    text = json.dumps(recordings.to_json(scrubbed))
    for secret in ("S64FNE0R903600", "filer7", "acme-labs", "secretproject", "5a1e7c1e-0a43", "53114427311",
                   "645522839403"):
        assert secret not in text, secret
    assert findings_of(verdict("disk-nvme-state", scrubbed)) == "nvme0 (0000:01:00.0): dead, expected live"
    # A maker's part number has the shape of a serial number, and so is replaced too.
    before, after = (re.sub(r"(?<=SAMSUNG )\w+", "PART", findings_of(verdict("disk-smart-warning", one)))
                     for one in (seen, scrubbed))
    assert before == after != ""
    assert "12 media" in findings_of(verdict("disk-smart-media-errors", scrubbed))


SICK = (
    ("raid-volume-state",
     perc(controller(**{"VD LIST": [volume(state="Dgrd")], "PD LIST": [drive(0), drive(1, "Offln")]}))),
    ("raid-drive-state", perc(controller(**{"PD LIST": [drive(0), drive(1, "UBad", "-")]}))),
    ("raid-drive-failing",
     perc(of_drives=[drives(counters(0), counters(1, **{"S.M.A.R.T alert flagged by drive": "Yes"}))])),
    ("raid-drive-media-errors", tri_mode(of_drives=newer_drives(**{"Media Error Count": 7}))),
    ("raid-battery-state",
     tri_mode(newer(**{"Energy Pack Info": [{"Type": "Supercap", "Status": "Failed"}]}))),
    ("raid-volume-state", boss(MVCLI.replace("functional", "degraded"))),
)


@pytest.mark.parametrize(("rule", "seen"), SICK)
def test_what_raid_controllers_tools_print_is_judged_alike_once_serial_numbers_are_replaced(
        rule: str, seen: Recording) -> None:
    seen = replace(seen, captures={probe.id: seen.captures[probe.id] for probe in RULES[rule].probes
                                   if probe.id in seen.captures})
    scrubbed = scrub(seen, Node(name="gpu001"), key=b"k" * 32).recording
    text = json.dumps(recordings.to_json(scrubbed))
    assert "S6KPNE0W" not in text and "SPE4" not in text
    before, after = (re.sub(r"\((?!RAID\d)\w+\)", "(MODEL)", findings_of(verdict(rule, one)))
                     for one in (seen, scrubbed))
    assert before == after != ""
