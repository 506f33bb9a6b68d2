"""Evidence on one node for the people who repair it: a full snapshot, and on demand what nvidia-bug-report.sh
collects.

    DIR/recording.json             muster.recording/1 with its `sweep`: `muster check --replay` judges
    DIR/nvidia-bug-report.log.gz   what the vendor asks for (.log where the node has no gzip)
    DIR/manifest.json              muster.evidence/1: versions, captures with outcomes, limits; written last

nvidia-bug-report.sh is the vendor's own script. It asks the driver for everything (nvidia-smi,
nvidia-debugdump), reads every PCI device's configuration space, and may hang where a GPU is faulty, as its
own text says. So only a person starts it, never a rule, and always within a limit. `--extra-system-data` is
never passed: it makes the kernel trace every CPU through sysrq.
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
from inventory.transport.deadline import deadline

SCHEMA = "muster.evidence/1"
STAMP = "%Y%m%dT%H%M%SZ"    # the folder's name, in UTC
COMMAND = "nvidia-bug-report.sh"
LIMIT_S = 300
LIMIT_BYTES = 24 * MIB
REPLY_BYTES = 64 * MIB      # base64 encodes three bytes in four
LOG_BYTES = 24 * MIB        # more than the largest usual kernel log (log_buf_len=16M)
_SNAPSHOT_S = 45.0
_GRACE_S = 30.0             # to kill what hangs and to encode the rest
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
timeout -k 5 "$seconds" {COMMAND} --output-file "$folder/nvidia-bug-report.log" "$@" >output 2>&1 </dev/null
status=$?
tail -c 1000 output >&2
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
    """The outcome in one word, `reason` in one line; `data` is the file `name`, as far as it arrived."""

    outcome: str
    reason: str = ""
    name: str = ""
    data: bytes = b""
    seconds: float = 0.0


def bug_report_probe(*, safe: bool = False, limit_s: int = LIMIT_S, limit: int = LIMIT_BYTES) -> Probe:
    """The probe that runs it, on demand only: it belongs to no fact, so no rule can use it."""
    argv = ("sh", "-c", _SCRIPT, COMMAND, str(limit_s), str(limit), *(("--safe-mode",) if safe else ()))
    return Probe("evidence.bug_report", ProbeKind.COMMAND, argv=argv, seconds=limit_s + _GRACE_S,
                 limit=limit // 2 * 3 + 4096)


def why_not(node: Node, host: Host) -> str:
    """Why it cannot run on this node, in one line; empty if it can."""
    if host.uid == 0:
        return ""
    hint = "log in as root, or set `privilege: become`"
    if node.privilege is Privilege.HELPER:
        return f"{COMMAND} needs root, and the root-owned helper runs known probes only: {hint}"
    return f"{COMMAND} needs root, and this snapshot was made as uid {host.uid}: {hint}"


def bug_report_of(recording: Recording, probe: Probe) -> BugReport:
    """The bug report in a node's answer. It raises nothing, whatever the node's untrusted bytes are."""
    if recording.failure is not None:
        return BugReport("unreached",
                         clean(f"{recording.failure.stage.value}: {recording.failure.reason}", 300))
    capture = recording.captures.get(probe.id)
    if capture is not None and capture.outcome is Outcome.DONE and capture.exit == 0:
        return replace(_received(capture, probe), seconds=capture.seconds)
    outcome = "failed" if capture is None or capture.outcome is Outcome.DONE else capture.outcome.value
    reason = why(replace(probe, argv=(COMMAND,)), capture)
    return BugReport(outcome, clean(reason, 300), seconds=capture.seconds if capture else 0.0)


def _received(capture: Capture, probe: Probe) -> BugReport:
    limit_s, limit = int(probe.argv[4]), int(probe.argv[5])
    head, _, body = capture.text.partition("\n")
    words = head.split(" ")
    if len(words) != 4 or words[0] != _MARK \
            or not all(w.isascii() and w.isdigit() and len(w) < 16 for w in words[1:3]):
        return BugReport("failed", f"the answer has another format: {short(head)}")
    status, size, name = int(words[1]), int(words[2]), words[3]
    output = clean((capture.stderr.strip().splitlines() or [""])[-1], 200)
    late = f"it did not end within {limit_s} s and was stopped; --safe-mode leaves out what is known to hang"
    if name not in NAMES:
        if status == 127:
            return BugReport("missing", f"{COMMAND} is not there, or timeout(1) is not: {output}")
        if status == 126 or "as root" in capture.stderr:
            return BugReport("denied", output or f"{COMMAND} cannot be executed")
        if status in _STOPPED:
            return BugReport("timeout", f"{late}; nothing had been written")
        reason = f"it ended with exit status {status} and wrote nothing"
        return BugReport("empty", f"{reason}: {output}" if output else reason)
    if size > limit:
        return BugReport("too-large", f"{size / MIB:.1f} MiB, and at most {limit / MIB:g} MiB are fetched: "
                         f"run {COMMAND} on the node")
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        return BugReport("failed", "what came back is damaged: it is not base64")
    if len(data) != size or not data:
        return BugReport("failed", f"what came back is damaged: {len(data)} bytes of {size}")
    if status in _STOPPED:
        return BugReport("partial", f"{late}; what it had written is kept", name, data)
    if status:
        return BugReport("partial", f"it ended with exit status {status}: {output}", name, data)
    return BugReport("written", "", name, data)


def snapshot_probes(node: Node) -> ProbeSet:
    """Every passive probe, with the whole kernel log; the root-owned helper takes its probes unchanged."""
    plugins.load()
    known = {probe.id: probe for spec in FACTS.values() for probe in (*spec.probes, *spec.besides)
             if probe.effect is Effect.PASSIVE}
    if node.privilege is not Privilege.HELPER:
        known[LOG.id] = replace(LOG, limit=max(LOG.limit, LOG_BYTES), seconds=max(LOG.seconds, 20.0),
                                each_s=max(LOG.each_s, 15.0))
    return replace(ProbeSet.of(known.values(), _SNAPSHOT_S), reply_bytes=REPLY_BYTES)


def bug_report_probes(probe: Probe) -> ProbeSet:
    """The probe set of the second run: only this probe."""
    return replace(ProbeSet.of([probe], probe.seconds + 5.0), reply_bytes=REPLY_BYTES)


def collect(node: Node, probes: ProbeSet, transport: Transport, node_s: float) -> Recording:
    """Runs the probes on one node in one exec; failures are in the recording."""
    limits = Limits(node_s=node_s, fanout=1, reply_bytes=REPLY_BYTES)
    limits = replace(limits, sweep_s=deadline((node,), limits))
    replies = transport.run((node,), program.build(probes), limits)
    try:
        return within(reply.decode(next(replies), limit=REPLY_BYTES), probes)
    finally:
        close = getattr(replies, "close", None)
        if close is not None:
            close()


def manifest(recording: Recording, probes: ProbeSet, report: BugReport | None, report_probe: Probe,
             files: Mapping[str, bytes], *, muster: str, started: str, finished: str) -> bytes:
    """The document that lists what the folder holds, and why something is missing."""
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
    known = {name: reading(value, name)
            for name in ("kernel", "driver")} if isinstance(value, Versions) else {}
    return {name: text for name, text in known.items() if isinstance(text, str)}


def newest_bundle(states: Path, node: str, since: float) -> str:
    """The newest `muster evidence` folder of this node, if not older than `since`; else empty."""
    kept = states / "evidence" / node
    stamps = [path.parent.name for path in kept.glob("*/manifest.json")]
    young = sorted(stamp for stamp in stamps if (made := _time(stamp)) is not None and made >= since)
    return str((kept / young[-1]).absolute()) if young else ""


def _time(stamp: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(stamp, STAMP)))
    except ValueError:
        return None
