"""What launchers and collectors put before a program's line: the node, the pod,
the rank and the time that it is of.

    rack1-gpu03: ...              pdsh, clush, DeepSpeed's launcher
    3: ...                        srun --label (the task; mostly its rank)
    [1,3]<stdout>:...             mpirun --tag-output; [prterun-gpu01-4711@1,3]<stdout>: of Open MPI 5
    [default3]:...                torchrun --tee (the rank on its node)
    [pod/trainer-worker-3/pytorch] ...    kubectl logs --prefix
    trainer-worker-3 pytorch ...          stern
    worker-3  | ...               docker compose
    2026-11-21T10:00:00.123Z ...  kubectl logs --timestamps, loggers of programs; with "stderr F" of a
                                  container runtime's own files
    Nov 21 10:00:00 gpu003 train[4711]: ...    journalctl, syslog
    {"log":"...                   docker's json-file

A name and a colon is a node's only where the node is known, or where most lines begin so:
programs write `ValueError: ...`, too.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from healthcheck.joblog.model import LogClock

_MOST = 6               # prefixes of one line
_SAMPLE = 4000          # lines that are looked at for what most begin with
_SHARE = 0.6

_ISO = re.compile(
    r"\[?(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?:(Z)|([+-])(\d\d):?(\d\d))?\]?(?:: |,? |$)"
    r"(?:std(?:out|err) [FP] )?")
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d) ([A-Za-z0-9][\w.-]{0,252}) "
                     r"[\w./@-]{1,80}(?:\[\d{1,10}\])?: ")
_DOCKER = re.compile(r'\{"log":"')
_CTIME = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d) (\d{4})(?=\[)")
_GLOG = re.compile(r"\b[EWIF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,9})?) ")
_TAG = re.compile(
    r"\[(?:(\d{1,12})|[\w.-]{1,200}@(\d{1,9})),(\d{1,7})\]"
    r"(?:\[([A-Za-z0-9][\w.-]{0,252}):\d{1,10}\])?<std\w{1,5}>: ?")
_LABEL = re.compile(r"\s{0,6}(\d{1,6}): (?=\S)")
_ROLE = re.compile(r"\[(?!rank)[a-z_]{1,40}(\d{1,4})\]: ?")
_POD = re.compile(r"\[pod/([A-Za-z0-9][\w.-]{0,252})/[\w.-]{1,253}\] ?")
_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,252}):(?: |$)")
# What most lines must begin with, to be a prefix: a name, a rank of MPICH's -l,
# a pod of stern or of docker compose.
_NODE = re.compile(r"(?!\w{1,80}(?:Error|Exception|Warning|Interrupt): )"
                   r"([A-Za-z][\w.-]{0,200}\d[\w.-]{0,50}|\d{1,3}(?:\.\d{1,3}){3}):(?: |$)")
_MPICH = re.compile(r"\[(\d{1,6})\] ")
_STERN = re.compile(r"([a-z][a-z0-9]{0,60}(?:[.-][a-z0-9]{1,60}){0,12}-[a-z0-9]{0,20}\d[a-z0-9]{0,20}) "
                    r"[a-z][a-z0-9-]{1,62} (?=\S)")
_COMPOSE = re.compile(r"([A-Za-z0-9][\w.-]{0,100}\d) {1,20}\| ?")
_BY_SHARE = (_NODE, _MPICH, _STERN, _COMPOSE)
_MONTHS = {name: number for number, name in enumerate(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stood before a line; `task` is the number that the launcher gives its process, `local` that on its
    node, `stamp` its time as it stands there."""

    node: str = ""
    task: int | None = None
    local: int | None = None
    stamp: str = ""


class Prefixes:
    """Takes prefixes off the lines of one file."""

    def __init__(self, lines: Sequence[str], clock: LogClock, nodes: Collection[str] = ()) -> None:
        """`nodes` are the nodes that the job is known to have run on."""
        self._clock = clock
        self._known = {short(node) for node in nodes}
        self._usual: list[re.Pattern[str]] = []
        sample = [line for line in lines[::max(1, len(lines) // _SAMPLE)] if line.strip()
                  and not line.startswith(("---", "==="))]
        # What stands behind one kind of prefix may be another: the time of kubectl and the name of a pod.
        for _ in range(2):
            bare = [self.split(line[:500])[0] for line in sample]
            votes = Counter(form for line in bare for form in _BY_SHARE if form not in self._usual
                            and form.match(line))
            self._usual += [form for form, count in votes.most_common(1) if count >= _SHARE * len(sample)]

    def split(self, line: str) -> tuple[str, Prefix | None]:
        """The program's own words, and what stood before them; None where nothing did."""
        at, node, task, local, stamp = 0, "", None, None, ""
        for _ in range(_MOST):
            first = line[at:at + 1]
            if first == "{" and at == 0 and (docker := _DOCKER.match(line)) is not None:
                at = docker.end()
                continue
            if first == "[":
                if (tag := _TAG.match(line, at)) is not None:
                    # Job 0 of Open MPI is the launcher itself.
                    at, task, node = (tag.end(), int(tag[3]) if (tag[1] or tag[2]) != "0" else task,
                                      tag[4] or node)
                    continue
                if (role := _ROLE.match(line, at)) is not None:
                    at, local = role.end(), int(role[1])
                    continue
                if (pod := _POD.match(line, at)) is not None:
                    at, node = pod.end(), pod[1]
                    continue
            if not stamp and (first.isdecimal() or first == "[" or first.isupper()) and \
                    (date := _ISO.match(line, at) or _CTIME.match(line, at)) is not None:
                at, stamp = date.end(), date[0]
                continue
            if not stamp and first.isupper() and (syslog := _SYSLOG.match(line, at)) is not None:
                at, stamp, node = syslog.end(), syslog[0], syslog[4]
                continue
            if (task is None and (first.isdecimal() or first == " ")
                and (label := _LABEL.match(line, at)) is not None):
                at, task = label.end(), int(label[1])
                continue
            if node:
                break
            if self._known and (name := _NAME.match(line, at)) is not None and short(name[1]) in self._known:
                at, node = name.end(), name[1]
                continue
            usual = next((found for form in self._usual if (found := form.match(line, at)) is not None), None)
            if usual is None or (usual.re is _MPICH and task is not None):
                break
            at = usual.end()
            if usual.re is _MPICH:
                task = int(usual[1])
            else:
                node = usual[1]
        return (line[at:], Prefix(node, task, local, stamp)) if at else (line, None)

    def time(self, prefix: Prefix) -> float | None:
        """The time before a line, in epoch seconds; None where there is none."""
        return _time(prefix.stamp, self._clock) if prefix.stamp else None


def short(host: str) -> str:
    """A host's name without its domain, in lower case; an address as it is."""
    return (host.lower() if host.replace(".", "").isdecimal() or ":" in host
            else host.partition(".")[0].lower())


def stamp(line: str, clock: LogClock) -> float | None:
    """The time near the start of a line, or None."""
    if (glog := _GLOG.search(line, 0, 200)) is not None:
        return clock.at(None, int(glog[1]), int(glog[2]), glog[3])
    iso = _ISO.search(line, 0, 200)
    return _iso(iso, clock) if iso is not None else None


def _time(text: str, clock: LogClock) -> float | None:
    if (iso := _ISO.match(text)) is not None:
        return _iso(iso, clock)
    if (syslog := _SYSLOG.match(text)) is not None and syslog[1] in _MONTHS:
        return clock.at(None, _MONTHS[syslog[1]], int(syslog[2]), syslog[3])
    date = _CTIME.match(f"{text}[")
    return (clock.at(int(date[4]), _MONTHS[date[1]], int(date[2]), date[3]) if date is not None
            and date[1] in _MONTHS else None)


def _iso(match: re.Match[str], clock: LogClock) -> float | None:
    text = f"{match[1]} {match[2]}" + (f".{match[3]}" if match[3] else "")
    if not match[4] and not match[5]:
        return clock.iso(text)
    time = LogClock(clock.near, dt.timezone.utc).iso(text)
    east = (int(match[6]) * 3600 + int(match[7]) * 60) * (-1 if match[5] == "-" else 1) if match[5] else 0
    return time - east if time is not None else None
