"""A real job of four processes that train over gloo, with timed sleeps as computation, and faults that are
planted in it while it runs.

The callback is the one of the topic `watch`, taken from its page. Each process calls itself another host, as
if it had a machine of its own; so that it has one as far as the CPU goes, ranks come before all else that
runs here (root alone may do that).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
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
CGROUP = Path("/sys/fs/cgroup")     # of version 1
# bytes of the file that each rank maps, and what its memory is then limited to
MAPPED, LIMIT = 8 << 20, 6 << 20
FIRST = "-20"                       # the niceness of ranks
# bytes a second that a throttled disk reads; a step reads a quarter of a MiB
RATE = 1 << 20

# Mbit/s: each rank sends 24 KiB in a step (1.5 times 16 KiB), for which a step of 77 ms then is too short
RATE_MBIT = 2

# Most of a step is sleep and a part is work of the CPU: a quota stretches only the latter. A rank reads its
# next samples from the disk, past the page cache, and goes through a mapped file, which stays in memory as
# long as there is enough. It gets the CPU before what else runs here: a rank that other work starves is slow
# in truth, and no innocent. Where the kernel shares the CPU among sessions (sched(7), autogroup), the
# niceness of a process alone counts within its own only. Without root or such a kernel it works all the same.
PROGRAM = '''
import datetime, mmap, sys, torch, torch.distributed as dist
if "FIRST" in os.environ:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, int(os.environ["FIRST"]))
        with open("/proc/self/autogroup", "w") as file:
            file.write(os.environ["FIRST"])
    except OSError:
        pass
dist.init_process_group("gloo", init_method=f"tcp://{sys.argv[2]}", rank=int(os.environ["RANK"]), world_size=4, timeout=datetime.timedelta(seconds=60))
socket.gethostname = lambda: "gpu" + os.environ["RANK"]
folder, grads, kept, parent = sys.argv[1], torch.zeros(4096), [], os.getppid()
steps = Steps(folder + "/steps")
collected = [0.0]
def timed(what, info):
    collected[0] += time.perf_counter() * (1 if what == "stop" else -1)
gc.callbacks.append(timed)
gc.disable()
buffer, samples, weights = mmap.mmap(-1, 1 << 18), f"{folder}/samples-{os.environ['RANK']}", f"{folder}/weights-{os.environ['RANK']}"
try:
    read = os.open(samples, os.O_RDONLY | os.O_DIRECT)
except OSError:     # a file system without it
    read = os.open(samples, os.O_RDONLY)
def through(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        mapped.madvise(mmap.MADV_RANDOM)
        return sum(mapped[::mmap.PAGESIZE])
for step in range(1, 1_000_000):
    stop = os.path.exists(folder + "/stop") or os.getppid() != parent      # a test that was killed
    with steps.phase("data"):
        if os.path.exists(f"{folder}/slow-data-{os.environ['RANK']}"):
            time.sleep(0.1)
        os.preadv(read, [buffer], 0)
    with steps.phase("forward"):
        through(weights)
        time.sleep(0.05)
        if os.path.exists(f"{folder}/leak-{os.environ['RANK']}"):
            kept += [[[number]] for number in range(15000)]
            gc.collect()
        elif kept:
            kept.clear()
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
'''  # noqa: E501


def callback() -> str:
    """The callback of the topic, and what a rank knows of itself."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return f"{blocks[0]}\n{blocks[2]}\n"


@dataclass(frozen=True)
class GlooJob:
    """The job, while it runs; `steps` has its step times."""

    folder: Path
    processes: tuple[subprocess.Popen[bytes], ...]

    @property
    def steps(self) -> Path:
        return self.folder / "steps"

    def step(self) -> int:
        """The last step that rank 0 has reported."""
        log = self.steps / "rank_0.jsonl"
        return log.read_text().count("\n") if log.exists() else 0

    def wait(self, steps: int) -> None:
        """Until it has done so many steps more."""
        target, until = self.step() + steps, time.monotonic() + 120
        while self.step() < target:
            assert time.monotonic() < until and all(one.poll() is None
                                                    for one in self.processes), self.errors()
            time.sleep(0.05)

    def cut(self, first: int, last: int, folder: Path) -> Path:
        """The lines of these steps as logs of their own, in a new folder."""
        folder.mkdir(parents=True)
        for rank in range(RANKS):
            lines = (self.steps / f"rank_{rank}.jsonl").read_text().splitlines(keepends=True)
            (folder / f"rank_{rank}.jsonl").write_text("".join(line for line in lines if line.endswith("\n")
                                                               and first <= json.loads(line)["step"] <= last))
        return folder

    def errors(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.err"))

    def end(self) -> None:
        """Ends it after the step that it is in."""
        (self.folder / "stop").touch()
        for one in self.processes:
            one.wait(60)


def written(path: Path, size: int) -> None:
    """A file of so many bytes, which is on the disk and no longer in memory; in place of what was there, in
    one go."""
    new = path.with_name(f".{path.name}")
    with new.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    new.rename(path)


@contextlib.contextmanager
def running(folder: Path, net: Net | None = None, *, first: bool = True,
            forked: bool = False) -> Iterator[GlooJob]:
    """The job, which is killed at the end if it has not ended; in `net` each rank has a namespace of its own.
    `first`: its ranks come before all else that runs here. `forked`: they have PyTorch from the beginning,
    and what is done to the job's processes is done to none of them."""
    python, port = torches.forked() if forked else (torches.python(),), free_port()
    (folder / "steps").mkdir(parents=True)
    program = folder / "train.py"
    program.write_text(callback() + PROGRAM)
    for rank in range(RANKS):
        written(folder / f"samples-{rank}", 1 << 20)
        written(folder / f"weights-{rank}", MAPPED)
    started = []
    address = f"{net.address('n0') if net is not None else '127.0.0.1'}:{port}"
    try:
        for rank in range(RANKS):
            inside = ["ip", "netns", "exec", net.spaces[f"n{rank}"]] if net is not None else []
            with (folder / f"{rank}.err").open("wb") as err:
                started.append(subprocess.Popen(
                    [*inside, *python, str(program), str(folder), address], stdin=subprocess.DEVNULL,
                    stdout=err, stderr=err, start_new_session=True,
                    env={**os.environ, "RANK": str(rank), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                         **({"FIRST": FIRST} if first else {}),
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
    """The rank is stopped (SIGSTOP) for two thirds of the time, a little at a time."""
    over = threading.Event()

    def run() -> None:
        process = job.processes[rank]
        while not over.is_set():
            process.send_signal(signal.SIGSTOP)
            over.wait(0.12)
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
def grouped(job: GlooJob, rank: int, controller: str, **values: str) -> Iterator[None]:
    """The rank is in a control group of its own (version 1), with these files of the controller; a double
    underscore stands for a point."""
    top = CGROUP / controller
    require(os.geteuid() == 0 and (top / "tasks").exists(),
            f"needs root and the {controller} controller of cgroup v1")
    group = top / f"muster-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        for name, value in values.items():
            (group / f"{controller}.{name.replace('__', '.')}").write_text(value)
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        require(False, f"no control group of its own on this machine: {error}")
    process = job.processes[rank].pid
    before = (top / of_process(process, controller).lstrip("/")).resolve()
    try:
        (group / "cgroup.procs").write_text(str(process))
        yield
    finally:
        with contextlib.suppress(OSError):      # it may have ended
            (before / "cgroup.procs").write_text(str(process))
        until = time.monotonic() + 10
        while (group / "cgroup.procs").read_text().strip() and time.monotonic() < until:
            time.sleep(0.05)
        group.rmdir()


def crowded() -> bool:
    """Whether so much else runs here, and ranks do not come before it, that a fault may drown: 'cannot tell'
    is the right answer then."""
    return os.geteuid() != 0 and os.getloadavg()[0] > 4 * (os.cpu_count() or 1)


def of_process(process: int, controller: str) -> str:
    """The control group that the process is in."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{process}/cgroup").read_text().splitlines()]
    return next((path for _, names, path in lines if controller in names.split(",")), "/")


def quota(job: GlooJob, rank: int) -> contextlib.AbstractContextManager[None]:
    """The rank gets 4 % of a CPU, in slices of 100 ms."""
    return grouped(job, rank, "cpu", cfs_period_us="100000", cfs_quota_us="4000")


@contextlib.contextmanager
def short_of_memory(job: GlooJob, rank: int) -> Iterator[None]:
    """The file that the rank maps no longer fits into its memory: each step reads it from the disk again."""
    with grouped(job, rank, "memory", limit_in_bytes=str(LIMIT)):
        # What is in memory stays on the account that it was put on: only a new file is on the rank's own.
        written(job.folder / f"weights-{rank}", MAPPED)
        yield


@contextlib.contextmanager
def slow_disk(job: GlooJob, rank: int) -> Iterator[None]:
    """The rank reads RATE bytes a second from the disk that the job's folder is on."""
    device = job.folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    require((Path("/sys/dev/block") / name).exists(), f"{job.folder} is on no disk of its own")
    with grouped(job, rank, "blkio", throttle__read_bps_device=f"{name} {RATE}"):
        yield


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
    """What the rank sends goes through netem, such as ("delay", "15ms"); ("rate",) makes its NIC carry
    RATE_MBIT, each way."""
    name = f"n{rank}"
    inside = ("ip", "netns", "exec", net.spaces[name], "tc", "qdisc", "replace", "dev", "eth0", "root")
    if words == ("rate",):
        net.nic(name, RATE_MBIT)
    else:
        done = subprocess.run([*inside, "netem", *words], capture_output=True, text=True, check=False)
        require(done.returncode == 0, f"no netem on this machine: {done.stderr.strip()}")
    try:
        yield
    finally:
        net.nic(name, MBIT)


@contextlib.contextmanager
def lossy(net: Net, rank: int, share: float) -> Iterator[None]:
    """Of what the rank sends this share is lost on the way: the others drop it as it comes, by chance."""
    rule = ("INPUT", "-s", net.address(f"n{rank}"), "-m", "statistic", "--mode", "random", "--probability",
            str(share), "-j", "DROP")
    require(shutil.which("iptables"), "no iptables on this machine: apt-get install -y iptables")
    others = [net.spaces[f"n{other}"] for other in range(RANKS) if other != rank]
    made = []
    try:
        for space in others:
            done = subprocess.run(["ip", "netns", "exec", space, "iptables", "-A", *rule],
                                  capture_output=True, text=True, check=False)
            require(done.returncode == 0,
                    f"iptables has no match by chance on this machine: {done.stderr.strip()}")
            made.append(space)
        yield
    finally:
        for space in made:
            subprocess.run(["ip", "netns", "exec", space, "iptables", "-D", *rule], check=True)


def sent(job: GlooJob, rank: int) -> str:
    """The rank's own /proc/net/snmp."""
    return Path(f"/proc/{job.processes[rank].pid}/net/snmp").read_text()


PLANTS = {"stopped": stopped_now_and_then, "quota": quota, "memory": short_of_memory, "disk": slow_disk}


def planted(kind: str, job: GlooJob, rank: int) -> contextlib.AbstractContextManager[None]:
    """The fault of this kind on this rank, for as long as the context lasts; none where the kind is
    "none"."""
    if kind == "none":
        return contextlib.nullcontext()
    if kind in PLANTS:
        return PLANTS[kind](job, rank)
    return flagged(job, f"{'leak' if kind == 'leak' else 'slow-data'}-{rank}")
