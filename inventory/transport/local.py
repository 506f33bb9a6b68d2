"""Runs the program on this machine, with the same protocol, stages, lifeline and deadlines as over SSH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator

from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from inventory.transport.pipes import close_process, converse, spawn
from inventory.transport.session import Dialogue, lacking
from inventory.transport.watch import NodeJob, TaskFailed, Watchdog, fan_out


class LocalTransport:
    """`Transport` for this machine, whatever an address says; `become` uses sudo unless we are root."""

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """See `Transport.run`."""
        return fan_out(nodes, limits, lambda job: _visit(job, program, limits), Watchdog())


def _visit(job: NodeJob, program: Program, limits: Limits) -> bytes | Failure:
    node = job.node
    limits = limits.of(node)
    job.attempts = 1
    become = node.become and os.geteuid() != 0
    dialogue = Dialogue(program.of(node.name), limits, python=node.python, become=become, shell=False)
    job.task.step(limits.login_s, dialogue.timed_out)
    words = (*(("sudo", "-n", "--") if become else ()), node.python, "-I", "-S", "-c", program.loader,
             program.nonce)
    process = _start([*words, *program.arguments(node)])
    try:
        converse(job, dialogue, process, limits)
    finally:
        close_process(process)
    if dialogue.failure is not None:
        return dialogue.failure
    assert dialogue.body is not None  # noqa: S101  (narrowing: once over, it has one or the other)
    return dialogue.body


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    try:
        return spawn(argv)
    except OSError as error:
        if what := lacking((error.strerror or "").encode()):
            raise TaskFailed(Stage.CONNECT, f"cannot run {argv[0]}: {error.strerror}; {what}") from None
        if argv[0] == "sudo":
            raise TaskFailed(Stage.BECOME, f"cannot run sudo: {error.strerror}") from None
        raise TaskFailed(Stage.PYTHON,
                         f"cannot run {argv[0]}: {error.strerror}; install it or name another with `python:` "
                                    "in the inventory") from None
