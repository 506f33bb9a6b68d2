"""One ssh as it runs: its log tells how far it is, which bounds each stage and names what failed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from inventory.sshjump import Hop
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.mux import MuxSession
from inventory.transport.openssh_config import Configs
from inventory.transport.openssh_log import OpenSshLog, Reached
from inventory.transport.pipes import OutputHandler
from inventory.transport.session import Dialogue
from inventory.transport.watch import NodeJob, TaskFailed
from inventory.transport.wire import ConnectionDropped, place

MASTER_SECONDS = 5.0        # for a kept connection to open a session, before a new one is made


class Stale(Exception):
    """A shared connection failed; a new one may work, or will show why not."""


@dataclass
class Way:
    """The jump hosts before one node, and what its attempts showed: whether the last one failed as it does
    where a hop failed (`doubtful`), whether a living hop could not connect further (`refused`), whether the
    node was tried again, whether anything was sent to a program there, and how long the hops took to let us
    in, once that was looked at."""

    hops: tuple[Hop, ...]
    limits: Limits      # the node's
    doubtful: bool = False
    refused: bool = False
    again: bool = False
    sent: bool = False
    logins_s: float | None = None


class SharedOutput(OutputHandler):
    """For a session on a kept connection: its loss is not the program's end."""

    def __init__(self, dialogue: Dialogue, who: str, session: MuxSession) -> None:
        super().__init__(dialogue)
        self._who = who
        self._session = session

    def ended(self, exit_status: int | None) -> None:
        if self._session.lost:
            self.dialogue.lost(self._who)
        else:
            self.dialogue.ended(exit_status)


class LogFollower(OutputHandler):
    """Follows ssh's log to know its stage, and limits the time of each stage."""

    def __init__(
        self, dialogue: Dialogue, job: NodeJob, way: Way, configs: Configs, shared: bool,
    ) -> None:
        super().__init__(dialogue)
        self._job = job
        self._limits = limits = way.limits
        self._configs = configs
        self._shared = shared
        self._first = not way.again
        self._logins_s = way.logins_s
        self._cut = False       # the connection ended, not the program
        self._hops = max(1, len(way.hops))      # a ProxyCommand is one
        self._route = (f"the jump host{'s' if len(way.hops) > 1 else ''} "
                         f"{', '.join(hop.host for hop in way.hops)}")
        self._log = OpenSshLog(place(job.node.address or job.node.name, job.node.port or 22))
        self._end = time.monotonic() + limits.connect_s
        job.task.step(limits.connect_s, self._overdue)
        try:
            self.log, self._writer = os.pipe()
        except OSError as error:
            raise TaskFailed(Stage.HEAD, f"this machine has no free pipe ({error.strerror}); try a "
                                         "smaller --fanout", stuck=Stage.CONNECT) from None
        os.set_blocking(self.log, False)
        # ssh closes inherited files, so it opens the pipe by name. The pipe ends with us.
        self.path = f"/proc/{os.getpid()}/fd/{self._writer}"

    def close(self) -> None:
        """Closes our ends. A connection that is kept goes on without a log."""
        self._close_writer()
        if self.log is not None:
            os.close(self.log)
            self.log = None

    def logged(self, data: bytes) -> None:
        self._close_writer()
        if self._log.feed(data):
            self._next_stage()
        self._bounded()

    def errors(self, data: bytes) -> None:
        # Before the session this is not the program's output but a login banner or the proxy's.
        if self._log.reached in (Reached.MASTER, Reached.LOGIN, Reached.RUNNING):
            self.dialogue.errors(data)
        else:
            self._log.stderr(data)
            self._bounded()

    def timed_out_waiting(self) -> None:
        if self._log.reached is Reached.BANNER:
            raise TaskFailed(Stage.CONNECT, f"{self._log.proxy} did not connect us to {self._log.who} within "
                                            f"{self._limits.connect_s:.3g} s{self._log.hint}")
        raise Stale

    @property
    def refused(self) -> bool:
        """Whether a living jump host could not connect to what comes next."""
        return self._log.refused

    @property
    def through(self) -> bool:
        """Whether it ended as it does where a machine on the way failed."""
        return self._log.through or (self._cut and self._log.proxy is not None)

    def ended(self, exit_status: int | None) -> None:
        log, dialogue = self._log, self.dialogue
        if (log.reached is Reached.MASTER
            or (self._shared and log.proxy is not None and log.reached <= Reached.BANNER)):
            # When the connection is to be kept, ssh hides why it failed.
            raise Stale
        cut = self._cut = exit_status == 255 and not log.exited and (log.own or log.troubled)
        if log.reached < Reached.RUNNING or (cut and dialogue.stage is Stage.LOGIN):
            verdict = log.verdict(self._job.node.name)
            reason = self._configs.named(verdict.reason)
            if verdict.again:
                raise ConnectionDropped(reason)
            raise TaskFailed(verdict.stage, reason, stuck=verdict.stuck)
        if cut:
            dialogue.lost(log.who)
        else:
            dialogue.ended(exit_status)

    def _close_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def _bounded(self) -> None:
        if self._log.flooded and self._log.reached < Reached.RUNNING:
            stage = Stage.AUTH if self._log.reached >= Reached.AUTH else Stage.CONNECT
            raise TaskFailed(stage, f"{self._log.who} floods the connection instead of letting us in")

    def _next_stage(self) -> None:
        reached = self._log.reached
        self.deadline = (time.monotonic() + min(MASTER_SECONDS, self._limits.connect_s)
                         if reached is Reached.MASTER else None)
        seconds = max(0.0, self._end - time.monotonic())
        if reached is Reached.BANNER and self._log.proxy is not None:
            seconds = self._hops * self._limits.hop_s
            if self._log.jumps and self._first:
                # Look for the hop that hangs while there is time to name it.
                self.deadline = time.monotonic() + self._limits.connect_s
            elif self._logins_s is not None:
                # The hops were well a moment ago; they may take twice as long as then.
                seconds = min(seconds, 2 * self._logins_s + self._limits.connect_s)
        elif reached is Reached.EXCHANGE:
            seconds = self._limits.connect_s
        elif reached is Reached.AUTH:
            seconds = self._limits.auth_s
        elif reached >= Reached.LOGIN:
            if self.dialogue.python is None:
                self._job.task.step(self._limits.login_s, self.dialogue.timed_out)
            return
        self._job.task.step(seconds, self._overdue)

    def _overdue(self, seconds: float) -> Failure:
        who, reached, within = self._log.who, self._log.reached, f"within {seconds:.3g} s"
        if reached is Reached.START:
            return Failure(Stage.RESOLVE, f"ssh has not begun to connect to {who} {within} (a resolver that "
                                          "is down, or a Match exec?)")
        if reached is Reached.AUTH:
            return Failure(Stage.AUTH, f"{who} did not decide on our keys {within} (a hung home or directory "
                                       "there, or an agent here that waits for you?)")
        if reached is Reached.EXCHANGE:
            return Failure(Stage.CONNECT, f"{who} did not finish the key exchange {within}")
        if reached is Reached.BANNER and self._log.proxy is not None:
            # Where no one has looked at the hops yet, it may be one of them that hangs.
            if self._log.jumps and self._logins_s is None:
                return Failure(Stage.JUMP, f"{self._route} did not connect us to {who} "
                                           f"{within}{self._log.hint}")
            return Failure(Stage.CONNECT,
                           f"{self._log.proxy} did not connect us to {who} {within}{self._log.hint}")
        if reached is Reached.BANNER:
            return Failure(Stage.CONNECT, f"{who} accepted the connection, then sent nothing (waited "
                                          f"{self._limits.connect_s:.3g} s: a hung sshd, or no sshd at all)")
        return Failure(Stage.CONNECT, f"{who} did not answer {within} (host down, or a firewall that drops)")
