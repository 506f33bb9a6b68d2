"""A real job of four processes that train over gloo, with timed sleeps as computation, and faults that are planted in it while it runs.

The callback is the one of the topic `watch`, taken from its page. Each process calls itself another host, as if it had a machine of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import torches
from tests.testbed.namespaces import MBIT, Net
from tests.testbed.ports import free_port
from tests.testbed.require import require

PAGE = Path(__file__).parents[3] / "healthcheck/help/watch.md"
RANKS = 4
STEP_S = 0.1
CPU = Path("/sys/fs/cgroup/cpu")

# Two thirds of a step are sleep and a third is work of the CPU: a quota stretches only the latter.
PROGRAM = '''
import datetime, sys, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method=f"tcp://{sys.argv[2]}", rank=int(os.environ["RANK"]), world_size=4, timeout=datetime.timedelta(seconds=60))
socket.gethostname = lambda: "gpu" + os.environ["RANK"]
folder, leak, slow = sys.argv[1], os.environ["RANK"] == os.environ.get("LEAK"), 0.0
steps, grads, kept = Steps(folder), torch.zeros(1024), []
collected = [0.0]
def timed(what, info):
    collected[0] += time.perf_counter() * (1 if what == "stop" else -1)
gc.callbacks.append(timed)
gc.disable()
for step in range(1, 1_000_000):
    stop = os.path.exists(folder + "/stop")
    with steps.phase("data"):
        if os.path.exists(f"{folder}/slow-data-{os.environ['RANK']}"):
            time.sleep(0.06)
    with steps.phase("forward"):
        time.sleep(0.05)
        if os.path.exists(f"{folder}/leak-{os.environ['RANK']}"):
            kept += [[[number]] for number in range(40000)]
            gc.collect()
    with steps.phase("backward"):
        until = time.process_time() + 0.005
        while time.process_time() < until:
            pass
    with steps.phase("communication"):
        grads[0] = float(stop)
        dist.all_reduce(grads)
    steps.sums["gc"], collected[0] = steps.sums["gc"] + collected[0], 0.0
    own(steps.sums)
    steps.end(step)
    if grads[0] > 0:
        break
'''


def callback() -> str:
    """The callback of the topic, and what a rank knows of itself."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return f"{blocks[0]}\n{blocks[2]}\n"


@dataclass(frozen=True)
class GlooJob:
    """The job, while it runs; `folder` has its step times."""

    folder: Path
    processes: tuple[subprocess.Popen[bytes], ...]

    def step(self) -> int:
        """The last step that rank 0 has reported."""
        lines = (self.folder / "rank_0.jsonl").read_text().splitlines() if (self.folder / "rank_0.jsonl").exists() else []
        return len(lines)

    def wait(self, steps: int) -> None:
        """Until it has done so many steps more."""
        target, until = self.step() + steps, time.monotonic() + 120
        while self.step() < target:
            assert time.monotonic() < until and all(one.poll() is None for one in self.processes), self.errors()
            time.sleep(0.05)

    def errors(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.err"))

    def end(self) -> None:
        """Ends it after the step that it is in."""
        (self.folder / "stop").touch()
        for one in self.processes:
            one.wait(60)


@contextlib.contextmanager
def running(folder: Path, net: Net | None = None) -> Iterator[GlooJob]:
    """The job, which is killed at the end if it has not ended; in `net` each rank has a namespace of its own."""
    python, port = torches.python(), free_port()
    folder.mkdir(parents=True)
    program = folder / "train.py"
    program.write_text(callback() + PROGRAM)
    started = []
    address = f"{net.address('n0') if net is not None else '127.0.0.1'}:{port}"
    try:
        for rank in range(RANKS):
            inside = ["ip", "netns", "exec", net.spaces[f"n{rank}"]] if net is not None else []
            with (folder / f"{rank}.err").open("wb") as err:
                started.append(subprocess.Popen(
                    [*inside, python, str(program), str(folder), address], stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                    env={**os.environ, "RANK": str(rank), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                         **({"GLOO_SOCKET_IFNAME": "eth0"} if net is not None else {})}))
        job = GlooJob(folder, tuple(started))
        job.wait(5)
        yield job
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                one.send_signal(signal.SIGCONT)
                one.kill()
            one.wait(10)


@contextlib.contextmanager
def stopped_now_and_then(job: GlooJob, rank: int) -> Iterator[None]:
    """The rank is stopped (SIGSTOP) for two fifths of the time, a little at a time."""
    over = threading.Event()

    def run() -> None:
        process = job.processes[rank]
        while not over.is_set():
            process.send_signal(signal.SIGSTOP)
            over.wait(0.04)
            process.send_signal(signal.SIGCONT)
            over.wait(0.06)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def quota(job: GlooJob, rank: int) -> Iterator[None]:
    """The rank's control group gets 4 % of a CPU (cgroup v1), in slices of 100 ms."""
    require(os.geteuid() == 0 and (CPU / "cpu.cfs_quota_us").parent.exists(), "needs root and the cpu controller of cgroup v1")
    group = CPU / f"muster-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("4000")
    except OSError as error:
        require(False, f"no control group of its own on this machine: {error}")
    try:
        for task in Path(f"/proc/{job.processes[rank].pid}/task").iterdir():
            (group / "tasks").write_text(task.name)
        yield
    finally:
        for number in (group / "tasks").read_text().split():
            with contextlib.suppress(OSError):
                (CPU / "tasks").write_text(number)
        group.rmdir()


@contextlib.contextmanager
def flagged(job: GlooJob, name: str) -> Iterator[None]:
    """What the program itself does while there is such a file."""
    path = job.folder / name
    path.touch()
    try:
        yield
    finally:
        path.unlink()


@contextlib.contextmanager
def impaired(net: Net, rank: int, *words: str) -> Iterator[None]:
    """What the rank sends goes through netem, such as ("loss", "5%"); ("rate",) makes its NIC carry 1 Mbit/s, each way."""
    name = f"n{rank}"
    inside = ("ip", "netns", "exec", net.spaces[name], "tc", "qdisc", "replace", "dev", "eth0", "root")
    if words == ("rate",):
        net.nic(name, 1)
    else:
        done = subprocess.run([*inside, "netem", *words], capture_output=True, text=True, check=False)
        require(done.returncode == 0, f"no netem on this machine: {done.stderr.strip()}")
    try:
        yield
    finally:
        net.nic(name, MBIT)


def sent(job: GlooJob, rank: int) -> str:
    """The rank's own /proc/net/snmp."""
    return Path(f"/proc/{job.processes[rank].pid}/net/snmp").read_text()


def planted(kind: str, job: GlooJob, rank: int) -> contextlib.AbstractContextManager[None]:
    """The fault of this kind on this rank, for as long as the context lasts."""
    if kind == "stopped":
        return stopped_now_and_then(job, rank)
    if kind == "quota":
        return quota(job, rank)
    return flagged(job, f"{'leak' if kind == 'leak' else 'slow-data'}-{rank}")


def anyone(seed: int) -> int:
    return random.Random(seed).randrange(RANKS)
