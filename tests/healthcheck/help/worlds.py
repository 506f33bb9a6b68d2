"""What the commands of a topic are run against: a folder that is their home, with a demo fleet behind its
inventory."""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from healthcheck.watch import steplines
from inventory.nodeset import fold
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.healthcheck.help.pages import FOLDER, ROOT, blocks
from tests.healthcheck.watch.simulated import Planted, SimulatedJob

RECORDINGS = ROOT / "tests" / "recordings"


@dataclass(frozen=True)
class World:
    """A home for one page's commands, and the fleet that `muster.yaml` in it names."""

    home: Path
    fleet: DemoFleet
    sweeps: int = 2     # that `stored` brings

    def edit(self, old: str, new: str) -> None:
        file = self.home / "muster.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))

    def stored(self) -> None:
        """The sweeps are in the store."""
        shutil.copytree(self._swept() / "state", self.home / "state")

    def saved(self, name: str) -> None:
        """The folder `name` has a sweep, as `--save` leaves it."""
        shutil.copytree(self._swept() / "saved", self.home / name)

    def _swept(self) -> Path:
        """Sweeps of the fleet, made once: all stored, the first saved, and the others of sick nodes alone."""
        made = self.fleet.folder / "swept"
        if not made.is_dir():
            made.mkdir()
            shutil.copy(self.home / "muster.yaml", made)
            sick = fold(name for name, faults in self.fleet.planted.items() if faults)
            for words in (("--save", "saved"), *[(sick,)] * (self.sweeps - 1)):
                done = muster("check", "--store", *words, home=made, timeout=120)
                assert done.returncode == 1, done.stderr
        return made


def begin(home: Path, fleet: DemoFleet, sweeps: int = 2) -> World:
    """The fleet's inventory with a group of all nodes and a file of hosts that keeps jobs away."""
    text = fleet.inventory.read_text()
    for key in ("identity_file", "known_hosts_file"):
        text = re.sub(rf"{key}: (\w+)",
                      lambda found: f"{found[0].rpartition(' ')[0]} {fleet.folder}/{found[1]}", text)
    text = text.replace("version: 1\n",
                        f'version: 1\ncordon: {{hostfile: bad-hosts}}\ngroups: {{train: '
                        f'"{fold(fleet.nodes)}"}}\n')
    (home / "muster.yaml").write_text(text)
    return World(home, fleet, sweeps)


def _inventory(world: World) -> None:
    """The file that the topic shows, in the place of the fleet's."""
    (text,) = (text for language, text in blocks(FOLDER / "inventory.md") if language == "yaml")
    (world.home / "muster.yaml").write_text(text)


def _readme(world: World) -> None:
    """As the README begins: no inventory, and the user's ssh_config says how the nodes are reached."""
    (world.home / "muster.yaml").unlink()
    (world.home / ".ssh").mkdir()
    (world.home / ".ssh" / "config").write_text("".join(
        f"Host {name}\n  HostName 127.0.0.1\n  Port {node.port}\n  User {pwd.getpwuid(os.getuid()).pw_name}\n"
        f"  IdentityFile {world.fleet.folder}/id_ed25519\n  UserKnownHostsFile "
        f"{world.fleet.folder}/known_hosts\n"
        for name, node in world.fleet.nodes.items()))


def _importing(world: World) -> None:
    (world.home / "nodes.txt").write_text("".join(
        f"NodeName=gpu00{n} Arch=x86_64 CoresPerSocket=56 AvailableFeatures=h100 ActiveFeatures=h100 "
        f"Gres=gpu:h100:8 NodeAddr=10.1.0.{n} "
        f"NodeHostName=gpu00{n} State=IDLE Partitions=train\n" for n in (7, 8)))


def _kernel_log(world: World) -> None:
    shutil.copy(RECORDINGS / "kernel" / "vm" / "bus.kmsg.gz", world.home)


def _baseline(world: World) -> None:
    for number, log in enumerate(sorted((RECORDINGS / "kernel" / "vm").glob("clean-*.kmsg.gz"))[:6], 1):
        shutil.copy(log, world.home / f"vm{number:03d}.kmsg.gz")


def _explain(world: World) -> None:
    shutil.copy(RECORDINGS / "explain" / "gpu-off-bus.dmesg", world.home)


def _blame(world: World) -> None:
    shutil.copy(RECORDINGS / "explain" / "gpu-off-bus.dmesg", world.home / "gpu007.dmesg")
    shutil.copy(RECORDINGS / "explain" / "gpu-ecc.torchrun.log", world.home / "slurm-4711.out")


def _watch(world: World) -> None:
    """The step times of a job that ended long ago."""
    folder = world.home / "steps"
    folder.mkdir()
    job = SimulatedJob(8, 100, 1, (Planted("compute", (3,), 1.3, since=40),))
    by_rank: dict[int | None, list[str]] = {}
    for _, lines in job.passes():
        for line in lines:
            by_rank.setdefault(line.rank, []).append(steplines.line(line) + "\n")
    for rank, texts in by_rank.items():
        path = folder / f"rank_{rank}.jsonl"
        path.write_text("".join(texts))
        os.utime(path, (1_000_000_000, 1_000_000_000))


def _other_checkers(world: World) -> None:
    (world.home
     / "nhc.conf").write_text("# NHC's\n* || check_hw_cpuinfo 2 112 224\n{gpu[001-064]} || check_hw_ib 400\n"
                              "* || check_fs_free / 10%\n* || check_file_test -r -w -x -d -k /tmp\n")


def _ssh(world: World) -> None:
    """What each node has printed on its console, as cloud-init does; gpu003 had another key then. No key is
    pinned."""
    (world.home / "consoles").mkdir()
    keys = {host.rpartition(":")[2]: key for host, _, key in
            (line.partition(" ") for line in (world.fleet.folder / "known_hosts").read_text().splitlines())}
    for name, node in world.fleet.nodes.items():
        key = keys[str(node.port if name != "gpu003" else world.fleet.nodes["gpu001"].port)]
        (world.home / "consoles" / f"{name}.log").write_text(
            f"-----BEGIN SSH HOST KEY KEYS-----\n{key} root@{name}\n-----END SSH HOST KEY KEYS-----\n")
    world.edit(f"  known_hosts_file: {world.fleet.folder}/known_hosts\n", "")


def _stored(world: World) -> None:
    world.stored()


def _held(world: World) -> None:
    """Triage has isolated whom it may."""
    world.stored()
    done = muster("triage", "--apply", home=world.home, timeout=60)
    assert "cordoned in hostfile" in done.stdout, done.stdout + done.stderr


def _cordon(world: World) -> None:
    """Marks of other heads stand in the file."""
    (world.home / "bad-hosts").write_text("gpu008  # muster:dead#7: fan\ngpu005  # muster:dead#8: fan\n")
    (world.home / "good-hosts").write_text("gpu001\n")


def _triage(world: World) -> None:
    world.stored()
    (world.home / "site").mkdir()


WORLDS: Mapping[str, Callable[[World], None]] = {
    "README": _readme, "inventory": _inventory, "importing": _importing, "kernel-log": _kernel_log,
    "baseline": _baseline, "explain": _explain, "blame": _blame, "watch": _watch,
    "ssh": _ssh, "other-checkers": _other_checkers, "status-page": _stored, "incidents": _stored,
    "nodes": _held, "cordon": _cordon, "triage": _triage, "remediate": _stored, "disruptive": _stored,
}
