"""Evidence of one node for the people who repair it: a full look, and on demand what nvidia-bug-report.sh
collects.

    DIR/recording.json             muster.recording/1 with its `look`: `muster check --replay` judges it
    DIR/nvidia-bug-report.log.gz   what the vendor asks for (.log where the node has no gzip)
    DIR/manifest.json              muster.evidence/1: versions, captures and how they ended, limits; written last

nvidia-bug-report.sh is the vendor's own script. It asks the driver for everything it knows (nvidia-smi,
nvidia-debugdump), reads every PCI device's configuration space, and may hang where a GPU is sick, its own
text says; so it is started only by a person, never by a rule, and always within a limit.
`--extra-system-data` is never passed: it makes the kernel trace every CPU through sysrq.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from healthcheck.collector import program, reply
from healthcheck.collector.reply import within
from healthcheck.facts.base import FACTS, Captures, build_fact, why
from healthcheck.facts.host import Versions
from healthcheck.facts.kernel import LOG
from healthcheck.facts.values import reading
from healthcheck.model.probes import MIB, Effect, Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import Capture, Host, Outcome, Recording
from healthcheck.ruleset import plugins
from inventory.model import Node, Privilege
from inventory.text import clean, short
from inventory.transport.base import Limits, Transport

SCHEMA = "muster.evidence/1"
STAMP = "%Y%m%dT%H%M%SZ"    # the folder's name, in UTC
COMMAND = "nvidia-bug-report.sh"
LIMIT_S = 300
LIMIT_BYTES = 24 * MIB
REPLY_BYTES = 64 * MIB      # base64 makes four bytes of three
LOG_BYTES = 24 * MIB        # more than the largest kernel log that is customary (log_buf_len=16M)
_LOOK_S = 45.0
_GRACE_S = 30.0             # to kill what hangs, and to encode what is there
_MARK = "muster-bug-report"
_STOPPED = (124, 137)       # timeout(1): ended by TERM, or by KILL
NAMES = ("nvidia-bug-report.log.gz", "nvidia-bug-report.log")

# Arguments: seconds, bytes, then the script's own. The file goes the way of the answer and never stays on the
# node.
_SCRIPT = f"""
seconds=$1; most=$2; shift 2
umask 077
folder=$(mktemp -d "${{TMPDIR:-/tmp}}/{_MARK}.XXXXXX") || exit 75
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 75
timeout -k 5 "$seconds" {COMMAND} --output-file "$folder/nvidia-bug-report.log" "$@" >said 2>&1 </dev/null
status=$?
tail -c 1000 said >&2
for name in {" ".join(NAMES)}; do
    [ -s "$name" ] || continue
    size=$(($(wc -c <"$name")))
    echo "{_MARK} $status $size $name"
    [ "$size" -gt "$most" ] || base64 "$name"
    exit 0
done
echo "{_MARK} $status 0 none"
"""


@dataclass(frozen=True)
class BugReport:
    """What became of it: `outcome` is one word, `reason` one line; `data` is the file `name`, whole or as far
    as it came.
    """

    outcome: str
    reason: str = ""
    name: str = ""
    data: bytes = b""
    seconds: float = 0.0


def bug_report_probe(*, safe: bool = False, limit_s: int = LIMIT_S, limit: int = LIMIT_BYTES) -> Probe:
    """How it is run: on demand only, so it belongs to no fact and no rule can ask for it."""
    words = ("sh", "-c", _SCRIPT, COMMAND, str(limit_s), str(limit), *(("--safe-mode",) if safe else ()))
    return Probe("evidence.bug_report", ProbeKind.COMMAND, argv=words, seconds=limit_s + _GRACE_S,
                 limit=limit // 2 * 3 + 4096)


def why_not(node: Node, host: Host) -> str:
    """Why it cannot be run on this node, in one line; empty if it can."""
    if host.uid == 0:
        return ""
    way = "log in as root, or set `privilege: become`"
    if node.privilege is Privilege.HELPER:
        return f"{COMMAND} needs root, and the root-owned helper takes ids of probes and never runs it: {way}"
    return f"{COMMAND} needs root, and this look was made as uid {host.uid}: {way}"


def bug_report_of(recording: Recording, probe: Probe) -> BugReport:
    """What a node's answer to the probe means. The node's bytes are foreign: whatever they are, this raises
    nothing.
    """
    if recording.failure is not None:
        return BugReport("unreached",
                         clean(f"{recording.failure.stage.value}: {recording.failure.reason}", 300))
    capture = recording.captures.get(probe.id)
    if capture is None or capture.outcome is not Outcome.DONE or capture.exit != 0:
        reason = why(replace(probe, argv=(COMMAND,)), capture)
        word = (capture.outcome.value if capture is not None
                and capture.outcome is not Outcome.DONE else "failed")
        return BugReport(word, clean(reason, 300), seconds=capture.seconds if capture else 0.0)
    return _brought(capture, probe)


def _brought(capture: Capture, probe: Probe) -> BugReport:
    limit_s, limit = int(probe.argv[4]), int(probe.argv[5])
    head, _, body = capture.text.partition("\n")
    words = head.split(" ")
    if len(words) != 4 or words[0] != _MARK or not all(w.isascii() and w.isdigit()
                                                       and len(w) < 16 for w in words[1:3]):
        return BugReport("failed", f"the answer is not of our form: {short(head)}", seconds=capture.seconds)
    status, size, name = int(words[1]), int(words[2]), words[3]
    said = clean((capture.stderr.strip().splitlines() or [""])[-1], 200)
    late = f"it did not end within {limit_s} s and was stopped; --safe-mode leaves out what is known to hang"
    if name not in NAMES:
        if status == 127:
            return BugReport("missing", f"{COMMAND} is not there, or timeout(1) is not: {said}",
                             seconds=capture.seconds)
        if status == 126 or "as root" in capture.stderr:
            return BugReport("denied", said or f"{COMMAND} cannot be executed", seconds=capture.seconds)
        if status in _STOPPED:
            return BugReport("timeout", f"{late}; nothing had been written", seconds=capture.seconds)
        reason = f"it ended with exit status {status} and wrote nothing" + (f": {said}" if said else "")
        return BugReport("empty", reason, seconds=capture.seconds)
    if size > limit:
        return BugReport(
            "too-large",
            f"{size / MIB:.1f} MiB, and at most {limit / MIB:g} MiB are fetched: run {COMMAND} on the node",
            seconds=capture.seconds)
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        return BugReport("failed", "what came back is damaged: it is not base64", seconds=capture.seconds)
    if len(data) != size or not data:
        return BugReport("failed", f"what came back is damaged: {len(data)} bytes of {size}",
                         seconds=capture.seconds)
    if status in _STOPPED:
        return BugReport("partial", f"{late}; what it had written is kept", name, data, capture.seconds)
    if status:
        return BugReport("partial", f"it ended with exit status {status}: {said}", name, data,
                         capture.seconds)
    return BugReport("written", "", name, data, capture.seconds)


def look_probes(node: Node) -> ProbeSet:
    """Every passive probe of every fact, with the whole kernel log; the root-owned helper knows its probes as
    they are.
    """
    plugins.load()
    known = {probe.id: probe for spec in FACTS.values() for probe in (*spec.probes, *spec.besides)
             if probe.effect is Effect.PASSIVE}
    if node.privilege is not Privilege.HELPER:
        known[LOG.id] = replace(LOG, limit=max(LOG.limit, LOG_BYTES), seconds=max(LOG.seconds, 20.0),
                                each_s=max(LOG.each_s, 15.0))
    return replace(ProbeSet.of(known.values(), _LOOK_S), reply_bytes=REPLY_BYTES)


def bug_report_probes(probe: Probe) -> ProbeSet:
    """The probe set of the second run: this and nothing else."""
    return replace(ProbeSet.of([probe], probe.seconds + 5.0), reply_bytes=REPLY_BYTES)


def ask(node: Node, probes: ProbeSet, transport: Transport, node_s: float) -> Recording:
    """One exec on one node by the usual way; what goes wrong is in the recording."""
    limits = Limits(sweep_s=node_s + 60.0, node_s=node_s, fanout=1, reply_bytes=REPLY_BYTES)
    replies = transport.run((node,), program.build(probes), limits)
    try:
        return within(reply.decode(next(replies), limit=REPLY_BYTES), probes)
    finally:
        close = getattr(replies, "close", None)
        if close is not None:
            close()


def manifest(recording: Recording, probes: ProbeSet, report: BugReport | None, report_probe: Probe,
             files: Mapping[str, bytes], *, muster: str, started: str, finished: str) -> bytes:
    """The document that says what the folder holds, and what it lacks and why."""
    limits = {probe.id: probe for probe in probes.probes}
    document: dict[str, Any] = {
        "schema": SCHEMA, "node": recording.node, "started": started, "finished": finished, "muster": muster,
        "reached": recording.host is not None,
    }
    if recording.failure is not None:
        document["failure"] = {"stage": recording.failure.stage.value, "reason": recording.failure.reason}
    if recording.host is not None:
        document["host"] = dict(vars(recording.host))
        document["versions"] = _versions(recording)
    document["probes"] = {name: {"outcome": held.outcome.value, "exit": held.exit, "seconds": held.seconds,
                                 "bytes": held.bytes, "note": held.note,
                                 "limit_s": limits[name].seconds, "limit_bytes": limits[name].limit}
                          for name, held in sorted(recording.captures.items())}
    document["not_captured"] = sorted(set(limits) - set(recording.captures))
    document["bug_report"] = {"outcome": "not-asked"} if report is None else {
        "outcome": report.outcome, "reason": report.reason, "file": report.name, "seconds": report.seconds,
        "command": [COMMAND, *report_probe.argv[6:]], "limit_s": int(report_probe.argv[4]),
        "limit_bytes": int(report_probe.argv[5])}
    document["files"] = [{"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                         for name, data in sorted(files.items())]
    return json.dumps(document, indent=1).encode() + b"\n"


def _versions(recording: Recording) -> dict[str, str]:
    value = build_fact(FACTS["versions"], Captures(recording))
    said = {name: reading(value, name)
            for name in ("kernel", "driver")} if isinstance(value, Versions) else {}
    return {name: text for name, text in said.items() if isinstance(text, str)}


def newest_bundle(states: Path, node: str, since: float) -> str:
    """The newest folder of `muster evidence` on this node in the state folder; empty where there is none as
    young as `since`.
    """
    kept = states / "evidence" / node
    stamps = [path.parent.name for path in kept.glob("*/manifest.json")]
    young = sorted(stamp for stamp in stamps if (made := _time(stamp)) is not None and made >= since)
    return str((kept / young[-1]).absolute()) if young else ""


def _time(stamp: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(stamp, STAMP)))
    except ValueError:
        return None
