"""Asks the nodes of a job that hangs: NCCL's RAS and, where they are wanted, the stacks of its processes.
Both run beside the job and change nothing in it; py-spy stops no process (--nonblocking)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.facts import gpu_process
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.owners import OWNERS, ProcessOwners
from healthcheck.facts.values import Partial, Unmeasured, reading
from healthcheck.joblog import rasread
from healthcheck.model.probes import MIB, Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import Outcome
from healthcheck.watch import stacks
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.joblog.ras import RasReport
    from healthcheck.model.recording import Recording
    from healthcheck.watch.stacks import ProcessStack
    from inventory.model import Node
    from inventory.transport.base import Limits, Transport

# JSON since NCCL 2.28.7; an older client ends with an error there, and its text is taken.
RAS = (Probe("watch.ras.json", ProbeKind.COMMAND, argv=("ncclras", "-f", "json"), seconds=20, limit=16 * MIB),
       Probe("watch.ras.text", ProbeKind.COMMAND, argv=("ncclras", "-v"), seconds=20, limit=4 * MIB))
_MOST_NODES = 8             # that are asked: one process answers for the whole job
_MOST_PROCESSES = 16        # of one node whose stacks are read
_SPY_S = 10.0
_WHO = dict.fromkeys((OWNERS, *FACTS["gpu_loads"].probes))
_PYTHONS = ("python", "pt_main_thread")     # PyTorch calls its main thread so (torch.multiprocessing)


class HangAsker:
    """Asks some nodes of one job, the named ones first. What fails is a line of `trouble`, and no error."""

    def __init__(self, job: str, nodes: Sequence[Node], transport: Transport, limits: Limits, *,
                 stacks: bool) -> None:
        self._job, self._nodes, self._transport, self._limits = job, nodes, transport, limits
        self._stacks = stacks
        self.trouble = ""

    def ras(self) -> RasReport | None:
        """What NCCL's RAS answers, None where no node has its client or a job to ask."""
        for recording in self._asked(self._nodes[:_MOST_NODES], ProbeSet.of(RAS, 50)):
            for probe in RAS:
                capture = recording.captures.get(probe.id)
                if capture is None or capture.outcome is not Outcome.DONE or capture.exit:
                    continue
                try:
                    return rasread.parse(capture.text.encode())
                except rasread.NoRas as error:
                    self.trouble = f"{recording.node}: ncclras: {error}"
        return None

    def stacks(self, hosts: Collection[str]) -> tuple[str, ...]:
        """Where the job's processes stand on these hosts, or on the first where none is named; in words."""
        if not self._stacks:
            return ()
        wanted = {host.partition(".")[0] for host in hosts}
        named = [node for node in self._nodes if node.name.partition(".")[0] in wanted]
        # Some of the others show what the named ones differ in.
        others = [node for node in self._nodes if node not in named]
        chosen = [*named[:_MOST_NODES // 2], *others][:_MOST_NODES]
        of = {node.name: node for node in chosen}
        found: list[ProcessStack] = []
        for recording in list(self._asked(chosen, ProbeSet.of(_WHO, 45))):
            if processes := _processes(recording, self._job):
                found += self._dumped(of[recording.node], processes)
        if not found and not self.trouble:
            self.trouble = "no stacks: no process of the job is seen on the nodes that were asked"
        return stacks.words(found)

    def _dumped(self, node: Node, processes: Sequence[int]) -> Iterator[ProcessStack]:
        probes = {pid: Probe(f"watch.stack.{pid}", ProbeKind.COMMAND, seconds=_SPY_S, root=True,
                             argv=("py-spy", "dump", "--nonblocking", "--pid", str(pid)))
                  for pid in processes}
        for recording in self._asked([node], ProbeSet.of(probes.values(), _SPY_S * len(probes))):
            for pid, probe in probes.items():
                capture = recording.captures.get(probe.id)
                if capture is None or capture.outcome is not Outcome.DONE or capture.exit:
                    why = capture.outcome.value if capture is not None else "no answer"
                    why = capture.stderr.strip()[:100] if capture is not None and capture.exit else why
                    self.trouble = f"{node.name}: py-spy of process {pid}: {why}"
                elif (one := stacks.parse(capture.text, node.name, pid)) is not None:
                    yield one

    def _asked(self, nodes: Sequence[Node], wanted: ProbeSet) -> Iterator[Recording]:
        from healthcheck.collector import program, reply

        made = program.build(wanted, nvml=any(probe.kind is ProbeKind.NVML for probe in wanted.probes))
        limits = replace(self._limits, program_s=wanted.seconds + 5)
        try:
            for answer in self._transport.run(nodes, made, limits):
                recording = reply.within(reply.decode(answer), wanted)
                if recording.host is not None:
                    yield recording
        except MusterError as error:
            self.trouble = str(error)


def _processes(recording: Recording, job: str) -> list[int]:
    """The job's processes on a node: what runs on its GPUs; else Python in the job's control group, or where
    it has none that of users."""
    found = Captures(recording)
    on_gpus = build_fact(FACTS["gpu_loads"], found)
    on_gpus = on_gpus.value if isinstance(on_gpus, Partial) else on_gpus
    # Where it is not known which of them have ended, the numbers mean nothing.
    loads = [] if isinstance(on_gpus, Unmeasured) else [
        one for one in on_gpus if isinstance(reading(one, "gone"), tuple)]
    running = sorted({pid for one in loads for pid in one.processes if pid not in one.gone})
    if running:
        return running[:_MOST_PROCESSES]
    value = build_fact(FACTS["process_owners"], found)
    value = value.value if isinstance(value, Partial) else value
    if not isinstance(value, ProcessOwners):
        return []
    own = [one for one in value.users if one.command.startswith(_PYTHONS)]
    of_job = [one for one in own if one.job == f"Slurm job {job}"]
    free = [one for one in own if not one.job.startswith("Slurm")]
    return [one.pid for one in of_job or free][:_MOST_PROCESSES]


# Importing it registers what runs on GPUs.
_MODULES = (gpu_process,)
