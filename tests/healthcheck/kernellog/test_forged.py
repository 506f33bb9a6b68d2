"""What an unprivileged user can have a kernel print convicts no node: recorded on two kernels, and made on
the kernel that runs here."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import muster
from tests.healthcheck.baseline.vmlogs import FOLDER, load
from tests.testbed.require import require

# What he really did, beside what he wrote: a process of his met the node's own lack of memory, waited for a
# file system of his, and a bond of his own lost a port. Nothing in these lines is his text.
DONE = {"oom-node", "hung-task", "hung-task-suppressed", "bond-link-down", "bond-no-active"}
TEXTS = (
    "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
    "NVRM: Xid (PCI:0000:3b:00): 79; GPU has fallen off the bus.",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034",
    "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
    "Kernel panic - not syncing: Fatal exception",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
    "pcieport 0000:00:01.0: AER: device recovery failed",
    "nvme nvme0: controller is down; will reset: CSTS=0x3", "muster: all GPUs were reset",
    "x\nNVRM: Xid (PCI:0000:3b:00): 79; GPU has fallen off the bus.",
)


def findings(path: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Of a saved log what is worse than information: the rule and the subject."""
    done = muster("baseline", "check", str(path), "--format", "json", home=folder)
    for node in json.loads(done.stdout)["nodes"]:
        for result in node["results"]:
            if (result["severity"] != "info" and result["status"] != "skipped"
                and result["rule"] != "kernel-baseline"):
                yield from ((result["rule"], finding["subject"]) for finding in result["findings"])
                assert result["status"] in ("pass", "fail"), result


@pytest.mark.parametrize("name", ["forged", "forged-612"])
def test_recorded_forgeries_convict_no_one(name: str, tmp_path: Path) -> None:
    log = load(name)
    assert len(log.faults) >= 30 and b"NVRM: Xid" in log.records
    assert {subject for _, subject in findings(FOLDER / f"{name}.kmsg.gz", tmp_path)} <= DONE


@pytest.mark.parametrize("name", ["forged", "forged-612"])
def test_nor_do_they_where_a_console_has_parted_them_at_their_line_feeds(name: str, tmp_path: Path) -> None:
    console = FOLDER / f"{name}.console.gz"
    assert b"] NVRM: Xid (PCI:0000:3b:00): 79, pid=1" in gzip.decompress(console.read_bytes())
    assert {subject for _, subject in findings(console, tmp_path)} <= DONE | {"tsc-unstable"}


def test_a_record_of_the_same_words_by_the_kernel_itself_convicts(tmp_path: Path) -> None:
    (tmp_path / "own.log").write_text("".join(f"6,{n},{n}000000,-;{text.replace(';', ',')}\n"
                                              for n, text in enumerate(TEXTS[:8])))
    assert len(list(findings(tmp_path / "own.log", tmp_path))) >= 7


def test_a_record_that_a_process_wrote_to_the_log_convicts_no_one(tmp_path: Path) -> None:
    (tmp_path / "written.log").write_text(
        "".join(f"11,{n},{n}000000,-;{text}\n" for n, text in enumerate(TEXTS[:8])))
    assert list(findings(tmp_path / "written.log", tmp_path)) == []


@pytest.fixture
def kernel() -> Path:
    """This machine's own log, which root may read, and a user without privileges who has namespaces of his
    own."""
    device = Path("/dev/kmsg")
    require(os.geteuid() == 0 and device.is_char_device() and os.access(device, os.R_OK),
            "root and a kernel log (/dev/kmsg)")
    require(shutil.which("gcc"), "no C compiler on this machine: apt-get install -y gcc libc6-dev")
    probe = _as_no_one("unshare", "-Urm", "true")
    require(probe.returncode == 0, f"user namespaces for users without privileges: {probe.stderr.strip()}")
    return device


def _as_no_one(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command],
                          capture_output=True, text=True, check=False, timeout=60)


def test_what_a_user_makes_this_kernel_print_convicts_no_one(kernel: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        own = Path(folder)
        own.chmod(0o777)
        subprocess.run(["gcc", "-x", "c", "-o", str(own / "crash"), "-"],
                       input="int main(void) { *(volatile char *)0 = 1; }", text=True, check=True)
        before = {subject for _, subject in findings(kernel, own)}
        for text in TEXTS:
            _as_no_one("unshare", "-Urm", "mount", "-t", "tmpfs", "-o", text.replace(",", ";"), "none",
                       str(own))
            # A file of that name: the process is called by its first 15 bytes, and the line of the crash
            # names both.
            program = own / text.replace("/", "-")
            shutil.copy(own / "crash", program)
            _as_no_one(str(program))
        said = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        assert "Unknown parameter 'EXT4-fs error" in said and "EXT4-fs error ([" in said
        assert {subject for _, subject in findings(kernel, own)} <= before
        for words in ((), ("-r",), ("-J",)):
            (own / "saved").write_bytes(
                subprocess.run(["dmesg", *words], capture_output=True, check=True).stdout)
            assert {subject for _, subject in findings(own / "saved", own)} <= before, words
