"""Finds the jump host that failed where the system's ssh did not get through: each is logged in to, nearest
first, by an ssh of its own, once for all nodes behind it."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from inventory.sshjump import Hop
from inventory.transport.base import Failure, Stage
from inventory.transport.openssh_log import OpenSshLog, Reached
from inventory.transport.pipes import kill_group
from inventory.transport.wire import FORBIDDEN, ConnectionDropped, place

_MOST_LOG = 1024 * 1024
# What a session through a jump host asks for is not opened: the login is what counts.
_NOWHERE = "127.0.0.1:9"


# What ssh is given, the hops, and the seconds for each.
_Key: TypeAlias = "tuple[str, tuple[Hop, ...], float]"


@dataclass
class _Probe:
    """One examination of a route; nodes that fail while it is under way share it. `dropped`: a hop closed
    the connection before the login, and another may be let in."""

    done: threading.Event = field(default_factory=threading.Event)
    at: str = ""
    since: float = 0.0          # when the login to it began (time.monotonic)
    seconds: float = 0.0        # what the last login took, with those before it on the way
    culprit: Failure | None = None
    dropped: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it holds for whoever asks later."""
        return not self.done.is_set() or (self.culprit is not None and not self.dropped)


class HopProbes:
    """The examinations of one sweep. `ssh` is its path."""

    def __init__(self, ssh: str, environment: Mapping[str, str]) -> None:
        self._ssh = ssh
        self._environment = dict(environment)
        self._probes: dict[_Key, _Probe] = {}
        self._let_in: dict[_Key, float] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False
        self._lock = threading.Lock()

    def close(self) -> None:
        """Ends what is under way."""
        with self._lock:
            self._over = True
            running = list(self._running)
        for process in running:
            kill_group(process)

    def culprit(self, config: str, hops: tuple[Hop, ...], seconds: float) -> Failure | None:
        """Why no way leads through these hops, the failed one first; None where one does. It stays so until
        `forget_failures`. `config` is for `ssh -F`; `seconds` bound the login to one hop, beside those on
        the way to it. Raises ConnectionDropped (JUMP) where a hop has no room for another login now (sshd's
        MaxStartups)."""
        key = config, hops, seconds
        with self._lock:
            probe = self._probes.get(key)
            mine = probe is None or not probe.lasts
            if probe is None or mine:
                probe = self._probes[key] = _Probe()
        if mine:
            try:
                probe.culprit = self._first_failed(key, probe)
            finally:
                probe.done.set()
        probe.done.wait()
        if probe.culprit is not None and probe.dropped:
            raise ConnectionDropped(probe.culprit.reason, probe.culprit.stage)
        return probe.culprit

    def seconds_of(self, config: str, hops: tuple[Hop, ...], seconds: float) -> float | None:
        """How long it took to be let in by all hops, when they were examined last."""
        with self._lock:
            return self._let_in.get((config, hops, seconds))

    def forget_failures(self) -> None:
        """Hops that failed are examined again from now on."""
        with self._lock:
            self._probes = {key: probe for key, probe in self._probes.items() if probe.culprit is None}

    def under_way(self, config: str, hops: tuple[Hop, ...], seconds: float) -> tuple[str, float]:
        """The hop that is being examined now, and for how many seconds it has been."""
        with self._lock:
            probe = self._probes.get((config, hops, seconds))
        if probe is None or not probe.at:
            return hops[-1].host, 0.0
        return probe.at, time.monotonic() - probe.since

    def _first_failed(self, key: _Key, probe: _Probe) -> Failure | None:
        config, hops, seconds = key
        for number, hop in enumerate(hops):
            probe.since, probe.at = time.monotonic(), hop.host
            # The hops before it let us in anew, and may take twice as long as they just did.
            failure = self._log_in(config, hops[:number], hop, seconds + 2 * probe.seconds, probe)
            probe.seconds = time.monotonic() - probe.since
            if failure is None:
                continue
            if failure.stage is Stage.HEAD:
                return failure
            if number and FORBIDDEN in failure.reason:
                return Failure(Stage.JUMP, f"{hops[number - 1].host}: {FORBIDDEN}")
            return Failure(Stage.JUMP, f"{hop.host}: {failure.reason}",
                           Stage.JUMP if failure.stuck is not None else None)
        with self._lock:
            self._let_in[key] = probe.seconds
        return None

    def _log_in(
        self, config: str, before: tuple[Hop, ...], hop: Hop, seconds: float, probe: _Probe,
    ) -> Failure | None:
        """Why this hop lets us not in; None where it does, whatever it forwards."""
        log = OpenSshLog(place(hop.host, hop.port or 22))
        words = [self._ssh, "-F", config, "-o", "LogLevel=DEBUG1", "-W", _NOWHERE]
        if before:
            words += ["-o", f"ProxyJump={','.join(map(written, before))}"]
        words += [*(("-l", hop.user) if hop.user else ()), *(("-p", str(hop.port)) if hop.port else ())]
        try:
            with tempfile.NamedTemporaryFile(prefix="muster-hop-") as file:
                process = subprocess.Popen([*words, "-E", file.name, "--", hop.host],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE, start_new_session=True,
                                           env=self._environment)
                said, late = self._until_end(process, seconds)
                log.feed(Path(file.name).read_bytes()[:_MOST_LOG])
        except OSError as error:
            return Failure(Stage.HEAD, f"cannot run ssh to look at {log.who}: {error.strerror}; a smaller "
                                       "--fanout may help", Stage.CONNECT)
        if log.reached in (Reached.MASTER, Reached.LOGIN, Reached.RUNNING):
            return None
        if late:
            return Failure(Stage.CONNECT, f"{log.who} did not let us in within {seconds:.3g} s (host "
                                          "down, a firewall that drops, or a hung sshd)", Stage.CONNECT)
        log.stderr(said)
        verdict = log.verdict(hop.host)
        probe.dropped = verdict.again
        return Failure(verdict.stage, verdict.reason, verdict.stuck)

    def _until_end(self, process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bool]:
        """Its standard error, and whether it had to be ended."""
        with self._lock:
            self._running.add(process)
            over = self._over
        if over:
            kill_group(process)
        late = False
        with process:
            try:
                _, said = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                late = True
                kill_group(process)
                _, said = process.communicate()
        with self._lock:
            self._running.discard(process)
        return said, late


def written(hop: Hop) -> str:
    """A hop as ProxyJump takes it."""
    host = f"[{hop.host}]" if ":" in hop.host else hop.host
    return f"{hop.user + '@' if hop.user else ''}{host}{f':{hop.port}' if hop.port else ''}"
