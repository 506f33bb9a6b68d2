"""The child that runs the root-owned helper (`healthcheck.collector.onnode.helper`) and reads its reply."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import zlib
from typing import TYPE_CHECKING, Any, Dict, List

from healthcheck.collector.onnode.child import Child
from healthcheck.collector.onnode.shortage import own_failure
from healthcheck.collector.onnode.system import GRACE, STDERR, capture, clock, contents, text

if TYPE_CHECKING:
    from healthcheck.collector.onnode.run import CollectorRun

SUDO_S = 10.0           # until the helper reports that it runs
MOST_WRITTEN = 1 << 30  # by the helper
HELPER_RUNS = b"muster:helper:runs\n"


class HelperChild(Child):
    """The root-owned helper, through sudo: all probes that need root, by their ids alone, in one run.

    We cannot kill root's processes: they end with their input, a pipe that closes with us. The helper's next
    run finds its stuck children; we record sudo.
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
            self.end_input()
            raise
        finally:
            os.close(self.input)
        self.late = False
        self.last = self.deadline
        self.deadline = min(self.last, self.began + 1.0)

    def work(self) -> int:
        try:
            found = os.stat(self.path)
            if found.st_uid or found.st_mode & 0o022:
                raise ValueError("not only root may write to %s: it was not run" % self.path)
            os.dup2(self.input, 0)
            os.dup2(self.out, 1)
            # Far above what it may print, because old versions of sudo write their log under the same limit.
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            most = MOST_WRITTEN if hard == resource.RLIM_INFINITY else min(MOST_WRITTEN, hard)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
            path = os.environ.get("PATH", os.defpath) + ":/usr/local/bin:/usr/bin:/bin"
            words = ["sudo", "-n", "--", self.path, *(probe["id"] for probe in self.probes)]
            os.execvpe("sudo", words, dict(os.environ, LC_ALL="C", LANG="C", PATH=path))  # noqa: S606
        except FileNotFoundError as error:
            os.write(2, ("there is no sudo on the node" if error.filename != self.path else
                         "it is not installed at %s" % self.path).encode())
        except (OSError, ValueError) as error:
            os.write(2, (own_failure(error) or str(error)).encode("utf-8", "replace"))
        return 2

    def overdue(self) -> bool:
        now = clock()
        if now < self.deadline or self.killed:
            return now >= self.deadline
        if self.late:
            return True
        started = os.pread(self.out, len(HELPER_RUNS), 0) == HELPER_RUNS
        if (now < self.last and os.fstat(self.out).st_size <= self.most
            and (started or now < self.began + SUDO_S)):
            self.deadline = min(self.last, now + 1.0)
            return False
        # sudo may end by itself now and clean up.
        self.late = True
        self.end_input()
        self.deadline = now + GRACE
        return False

    def end_input(self) -> None:
        """Ends the helper by closing its input."""
        if self.run.lifeline >= 0:
            os.close(self.run.lifeline)
            self.run.lifeline = -1

    def ended(self, trouble: str) -> None:
        self.end_input()
        data, size = contents(self.out, self.most, False)
        noise, _ = contents(self.err, STDERR, True)
        rows = text(noise).strip().splitlines() or ["no output (exit %d)" % self.status]
        message = " ".join(rows[-1][:300].split())
        found: Dict[str, Any] = {}
        if size > self.most:
            outcome, note = "crashed", "the helper wrote more than allowed"
        elif self.late or trouble:
            what = ("the helper did not answer" if data.startswith(HELPER_RUNS)
                    else "sudo did not start the helper")
            outcome, note = "timeout", "%s within %g s" % (what, clock() - self.began)
            note = self.note("; ".join(part for part in (note, trouble) if part))
        elif not data:
            outcome, note = "denied", "the helper did not run: " + message
        else:
            outcome, note = "crashed", "the helper's reply cannot be read: " + message
            try:
                found = parse_reply(data)
                outcome, note = "denied", "the helper on the node is of another version: reinstall it"
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
                pass
        lacked = "" if found or self.late or trouble else self.lacked(text(noise))
        if lacked:
            outcome, note = "unable", note + "; " + lacked
        for probe in self.probes:
            made = found.get(probe["id"] + " " + digest(probe))
            if not isinstance(made, dict):
                made = capture(outcome, clock() - self.began, note=note)
            self.run.captures[probe["id"]] = made


def digest(probe: Dict[str, Any]) -> str:
    """Identifies the version of a probe."""
    return hashlib.sha256(json.dumps(probe, sort_keys=True).encode()).hexdigest()[:16]


def parse_reply(data: bytes) -> Dict[str, Any]:
    """The helper's captures by their probe's id and digest; an invalid reply raises ValueError and others."""
    head, _, body = data[len(HELPER_RUNS):].partition(b"\n")
    word, size, checksum = head.split(b" ")
    if (word != b"muster:helper:frame" or len(body) != int(size)
        or hashlib.sha256(body).hexdigest().encode() != checksum):
        raise ValueError
    document = json.loads(zlib.decompressobj().decompress(body, 64 << 20).decode())
    return {name + " " + document["digests"][name]: made for name, made in document["captures"].items()}
