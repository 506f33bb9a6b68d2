"""The child that runs the root-owned helper (`healthcheck.collector.onnode.helper`), and how the helper's answer is read."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import zlib
from typing import TYPE_CHECKING, Any, Dict, List

from healthcheck.collector.onnode.child import Child
from healthcheck.collector.onnode.system import GRACE, STDERR, capture, clock, held, text

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

SUDO_S = 10.0           # until the helper says that it runs
MOST_WRITTEN = 1 << 30  # by the helper
HELPER_RUNS = b"muster:helper:runs\n"


class Helper(Child):
    """The root-owned helper, through sudo: all probes that need root, by their ids alone, in one run.

    Root's processes are not ours to kill: what ends them is the end of their input, a pipe that is closed with us. Stuck children
    of the helper's are for its next run to find; we remember sudo.
    """

    def __init__(self, run: CollectorRun, path: str, probes: List[Dict[str, Any]]) -> None:
        self.path = path
        self.probes = probes
        self.most = sum(6 * probe["limit"] for probe in probes) + (1 << 20)
        self.input, run.lifeline = os.pipe()
        seconds = SUDO_S + sum(probe["seconds"] for probe in probes)
        try:
            Child.__init__(self, run, "the helper", seconds)
        except OSError:
            self.let_go()
            raise
        finally:
            os.close(self.input)
        self.late = False
        self.last = self.due
        self.due = min(self.last, self.began + 1.0)

    def work(self) -> int:
        try:
            found = os.stat(self.path)
            if found.st_uid or found.st_mode & 0o022:
                raise ValueError("%s is not root's alone to write to: it was not run" % self.path)
            os.dup2(self.input, 0)
            os.dup2(self.out, 1)
            # Far above what it may say, because old versions of sudo write their log under the same limit.
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN if hard == resource.RLIM_INFINITY else min(MOST_WRITTEN, hard), hard))
            path = os.environ.get("PATH", os.defpath) + ":/usr/local/bin:/usr/bin:/bin"
            words = ["sudo", "-n", "--", self.path, *(probe["id"] for probe in self.probes)]
            os.execvpe("sudo", words, dict(os.environ, LC_ALL="C", LANG="C", PATH=path))  # noqa: S606
        except FileNotFoundError as error:
            os.write(2, ("there is no sudo on the node" if error.filename != self.path else
                         "it is not installed at %s" % self.path).encode())
        except (OSError, ValueError) as error:
            os.write(2, str(error).encode("utf-8", "replace"))
        return 2

    def overdue(self) -> bool:
        now = clock()
        if now < self.due or self.killed:
            return now >= self.due
        if self.late:
            return True
        started = os.pread(self.out, len(HELPER_RUNS), 0) == HELPER_RUNS
        if now < self.last and os.fstat(self.out).st_size <= self.most and (started or now < self.began + SUDO_S):
            self.due = min(self.last, now + 1.0)
            return False
        # sudo may go by itself now, and close what it opened.
        self.late = True
        self.let_go()
        self.due = now + GRACE
        return False

    def let_go(self) -> None:
        """Ends the helper's input, and with it the helper."""
        if self.run.lifeline >= 0:
            os.close(self.run.lifeline)
            self.run.lifeline = -1

    def ended(self, trouble: str) -> None:
        self.let_go()
        data, size = held(self.out, self.most, False)
        noise, _ = held(self.err, STDERR, True)
        said = " ".join((text(noise).strip().splitlines() or ["it said nothing (exit %d)" % self.status])[-1][:300].split())
        found: Dict[str, Any] = {}
        if size > self.most:
            outcome, note = "crashed", "the helper said more than it may"
        elif self.late or trouble:
            what = "the helper did not answer" if data.startswith(HELPER_RUNS) else "sudo did not start the helper"
            outcome, note = "timeout", "%s within %g s" % (what, clock() - self.began)
            note = self.note("; ".join(part for part in (note, trouble) if part))
        elif not data:
            outcome, note = "denied", "the helper did not run: " + said
        else:
            outcome, note = "crashed", "the helper's answer is none: " + said
            try:
                found = helped(data)
                outcome, note = "denied", "the helper on the node is of another version: reinstall it"
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
                pass
        for probe in self.probes:
            made = found.get(probe["id"] + " " + digest(probe))
            self.run.captures[probe["id"]] = made if isinstance(made, dict) else capture(outcome, clock() - self.began, note=note)


def digest(probe: Dict[str, Any]) -> str:
    """By which two versions of a probe are told apart."""
    return hashlib.sha256(json.dumps(probe, sort_keys=True).encode()).hexdigest()[:16]


def helped(data: bytes) -> Dict[str, Any]:
    """What the helper captured, each under its probe's id and digest; raises ValueError and more for what is no answer of it."""
    head, _, body = data[len(HELPER_RUNS):].partition(b"\n")
    word, size, checksum = head.split(b" ")
    if word != b"muster:helper:frame" or len(body) != int(size) or hashlib.sha256(body).hexdigest().encode() != checksum:
        raise ValueError
    document = json.loads(zlib.decompressobj().decompress(body, 64 << 20).decode())
    return {name + " " + document["digests"][name]: made for name, made in document["captures"].items()}
