"""A real Slurm cluster on loopback: a munged, a slurmctld and as many slurmd as nodes are wanted, all stopped
whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.testbed.marks import plain
from tests.testbed.ports import free_port
from tests.testbed.processes import with_environment
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

SLURM = all(
    shutil.which(name, path="/usr/sbin:" + os.environ.get("PATH", ""))
    for name in ("slurmctld", "slurmd", "munged", "scontrol"))
WHY_NOT = "no Slurm on this machine, or not root: apt-get install -y slurm-wlm munge"


def can_run() -> bool:
    """Whether a cluster can be started here: Slurm is installed, and its daemons may be root."""
    return SLURM and os.geteuid() == 0


@dataclass
class Slurm:
    """One running cluster: its configuration, and the environment in which Slurm's commands talk to it."""

    folder: Path
    conf: Path
    environment: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def ask(self, *argv: str) -> str:
        """What one of Slurm's commands prints; fails when it does."""
        return subprocess.run(argv, env=self.environment, check=True, capture_output=True, text=True,
                              timeout=30).stdout

    def state(self, node: str) -> str:
        """Without the star of a node that has not answered yet since it was resumed."""
        return self.states()[node].rstrip("*")

    def reason(self, node: str) -> str:
        """Why a node is held, with a mark without its store's name."""
        return plain(self.ask("sinfo", "-h", "-n", node, "-o", "%E").strip())

    def idle_again(self) -> None:
        """Ends all jobs and reservations, and gives every node back."""
        subprocess.run(["scancel", "-u", "root"], env=self.environment, check=True)
        wait_until(lambda: not self.ask("squeue", "-h").strip(), what="the end of all jobs")
        for line in self.ask("scontrol", "--oneliner", "show", "reservation").splitlines():
            if line.startswith("ReservationName="):
                self.ask("scontrol", "delete", line.split()[0])
        for node, state in self.states().items():
            if state != "idle":
                subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"],
                               env=self.environment, check=False, capture_output=True)
        wait_until(lambda: set(self.states().values()) == {"idle"}, what="idle nodes")

    def nodes_return(self) -> None:
        """Waits until every node is idle. The slurmd of one that is not after 20 s is started anew: a
        controller asks a node that missed its question again only after minutes."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: set(self.states().values()) == {"idle"}, 20)
        for name, state in self.states().items():
            if state != "idle":
                self.processes[name].kill()
                self.processes[name].wait()
                _start(self, name, "slurmd", "-D", "-f", str(self.conf), "-N", name, "-L",
                       f"{self.folder}/{name}.log")
                if state != "idle*":
                    subprocess.run(["scontrol", "update", f"nodename={name}", "state=resume"],
                                   env=self.environment, check=False, capture_output=True)
        wait_until(lambda: set(self.states().values()) == {"idle"}, 60,
                   f"idle nodes, all of {self.states()},")

    def booted(self, *names: str) -> None:
        """Ends the slurmd of nodes and starts them as after a boot of the machine (slurmd -b)."""
        asked = time.time()
        for name in names:
            self.processes[name].terminate()
        for name in names:
            self.processes[name].wait(20)
        # Slurm counts in whole seconds, and takes a boot for the one that it asked for only where it was
        # later.
        wait_until(lambda: time.time() > asked + 2.5, what="a later second")
        for name in names:
            _start(self, name, "slurmd", "-b", "-D", "-f", str(self.conf), "-N", name, "-L",
                   f"{self.folder}/{name}.log")

    def kill_sruns(self) -> None:
        """Kills every srun here, as for want of memory."""
        for pid in with_environment(f"SLURM_CONF={self.conf}"):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"srun\0"):
                    os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kills the controller, as when its machine loses its power."""
        self.processes["slurmctld"].kill()
        self.processes["slurmctld"].wait()

    def start(self) -> None:
        """Starts the controller again, from what it had saved; it answers when this returns, and nodes may
        not have registered yet."""
        _start(self, "slurmctld", "slurmctld", "-D", "-f", str(self.conf), "-L",
               f"{self.folder}/slurmctld.log")
        wait_until(
            lambda: subprocess.run(["scontrol", "show", "node"], env=self.environment, check=False,
                                   capture_output=True).returncode == 0, 30, "the controller")

    def saved(self) -> Path:
        """Where the controller saves the state of nodes, some seconds after a change; once it has saved all
        that was changed until now."""
        file = self.folder / "state" / "node_state"
        word = f"saved-{time.time_ns()}"
        self.ask("scontrol", "update", f"nodename={min(self.processes.keys() - {'munged', 'slurmctld'})}",
                 f"comment={word}")
        wait_until(lambda: file.exists() and word.encode() in file.read_bytes(), 30, "the saved state")
        return file

    def states(self) -> dict[str, str]:
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N %T").split("\n")
        return dict(line.split(None, 1) for line in lines if line)


@contextlib.contextmanager
def slurm(folder: Path, nodes: list[str], *, partitions: dict[str, list[str]] | None = None,
          gres: str = "gpu:h100:8", extra: str = "", cred_expire: int = 120,
          programs: Path | None = None) -> Iterator[Slurm]:
    """A cluster whose `nodes` are idle when it is handed over; `extra` goes into slurm.conf, before the
    partitions. `programs` is a folder of Slurm's commands and daemons to be used instead of those of this
    machine.

    For `cred_expire` seconds, and one, a job that was requeued is not started again.
    """
    controller, *listening = (free_port() for _ in range(len(nodes) + 1))
    ports = dict(zip(nodes, listening, strict=True))
    socket_ = folder / "munge.socket"
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    device = folder / "gpu"
    for at in range(8):
        os.mknod(f"{device}{at}", 0o20666, os.makedev(1, 3))
    (folder / "gres.conf").write_text("".join(
        f"NodeName={name} Name=gpu Type=h100 File={device}[0-7]\n" for name in nodes))
    host = socket.gethostname().split(".")[0]
    conf = folder / "slurm.conf"
    conf.write_text("\n".join([
        "ClusterName=testbed", "SlurmctldHost=localhost(127.0.0.1)", f"SlurmctldPort={controller}",
        "SlurmUser=root", "SlurmdUser=root", f"AuthInfo=socket={socket_},cred_expire={cred_expire}",
        f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/%n.pid",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny", "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none", "SwitchType=switch/none",
        "MpiDefault=none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "ReturnToService=1",
        "GresTypes=gpu", *(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=100 "
            f"Gres={gres} Feature=h100,rack1" for name, port in ports.items()), extra, *(
                f"PartitionName={name} Nodes={','.join(members)} State=UP"
                for name, members in (partitions or {"main": nodes}).items()),]) + "\n")
    path = (f"{programs}:" if programs is not None else "") + "/usr/sbin:/sbin:" + os.environ.get("PATH", "")
    bed = Slurm(folder, conf, {"PATH": path, "SLURM_CONF": str(conf), "LC_ALL": "C"})
    try:
        _start(bed, "munged", "munged", "--force", "--foreground", f"--key-file={key}", "-S", str(socket_),
               f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log",
               f"--seed-file={folder}/munged.seed")
        wait_until(socket_.exists, what="the socket of munged")
        _start(bed, "slurmctld", "slurmctld", "-D", "-f", str(conf), "-L", f"{folder}/slurmctld.log")
        for name in nodes:
            _start(bed, name, "slurmd", "-D", "-f", str(conf), "-N", name, "-L", f"{folder}/{name}.log")
        wait_until(lambda: _idle(bed, nodes), 60, "idle nodes")
        yield bed
    finally:
        # Nothing of theirs is kept: asked to end, a controller first gives up on what it still says to nodes
        # that are gone.
        for process in bed.processes.values():
            process.kill()
        for process in bed.processes.values():
            process.wait()
        # Jobs that still run, each under a daemon of its own, outlive the daemon that started them.
        for pid in with_environment(f"SLURM_CONF={conf}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _start(bed: Slurm, name: str, *argv: str) -> None:
    with (bed.folder / f"{name}.out").open("wb") as out:
        bed.processes[name] = subprocess.Popen(argv, env=bed.environment, stdin=subprocess.DEVNULL,
                                               stdout=out, stderr=out)


def _idle(bed: Slurm, nodes: list[str]) -> bool:
    for name, process in bed.processes.items():
        assert process.poll() is None, f"{name} ended: {(bed.folder / f'{name}.out').read_text()[-400:]}"
    try:
        states = bed.states()
    except subprocess.CalledProcessError:       # slurmctld does not answer yet
        return False
    return all(states.get(name) == "idle" for name in nodes)


def fixture_of(nodes: list[str]) -> Callable[..., Iterator[Slurm]]:
    """The fixture `bed`, a module's cluster of these nodes."""
    @pytest.fixture(scope="module", name="bed")
    def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
        require(can_run(), WHY_NOT)
        with slurm(tmp_path_factory.mktemp("slurm"), nodes) as running:
            yield running

    return bed
