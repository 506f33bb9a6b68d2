"""Scrubs whole records: a recording, each capture by its content, and the node's inventory entry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from healthcheck.facts import resolver
from healthcheck.facts.filesystem import FSTAB
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.scrub import objects, paths
from healthcheck.scrub import patterns as forms
from healthcheck.scrub.allowed import Allowance
from healthcheck.scrub.engine import NODE, Scrubber
from inventory.model import Node, PortPlan
from inventory.transport.base import Failure


def own_name(node: Node) -> str:
    """The first label of the node's name, in small letters."""
    return node.name.lower().partition(".")[0]


def recording(scrubber: Scrubber, snapshot: Recording) -> Recording:
    """The recording with all text scrubbed; outcomes, exits, sizes and times stay."""
    failure = snapshot.failure
    if failure is not None:
        failure = Failure(failure.stage, scrubber.text(failure.reason))
    host = snapshot.host
    if host is not None:
        host = Host(scrubber.host(host.hostname), scrubber.opaque("boot id", host.boot_id), host.time,
                    host.uid, scrubber.text(host.python), host.machine, host.cpu_s)
    captures = {name: _capture(scrubber, name, capture) for name, capture in snapshot.captures.items()}
    return Recording(NODE, snapshot.received, host, failure, captures)


def _capture(scrubber: Scrubber, name: str, capture: Capture) -> Capture:
    cut = capture.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT)
    text = _whole(capture.text) if cut else capture.text
    files: dict[str, FileCapture] = {}
    mounts = any(path.endswith("/mountinfo") for path in capture.files)
    for path, entry in capture.files.items():
        held = _whole(entry.text) if entry.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT) else entry.text
        if mounts and not path.endswith("/mountinfo"):      # a mount point, and what statvfs says of it
            files[paths.scrubbed(scrubber, path)] = FileCapture(entry.outcome, held)
        else:
            files[scrubber.text(path)] = FileCapture(entry.outcome, _file(scrubber, path, held))
    if name == "docker.info" or text.lstrip().startswith("{"):
        text = "\n".join(objects.scrubbed(scrubber, line) for line in text.split("\n"))
    else:
        text = scrubber.text(text)
    return replace(capture, text=text, stderr=scrubber.text(capture.stderr), files=files,
                   note=scrubber.text(capture.note))


def allowed(allowance: Allowance, snapshot: Recording) -> Recording:
    """The scrubbed recording, of whose texts only what is allowed stays."""
    host, failure = snapshot.host, snapshot.failure
    if host is not None:
        host = replace(host, hostname=allowance.text(host.hostname), python=allowance.text(host.python),
                       machine=allowance.text(host.machine))
    if failure is not None:
        failure = Failure(failure.stage, allowance.text(failure.reason))
    captures = {}
    for name, capture in snapshot.captures.items():
        files = {allowance.text(path): FileCapture(entry.outcome,
                                                   allowance.text(entry.text, allowance.place(name, path)))
                 for path, entry in capture.files.items()}
        captures[name] = replace(capture, text=allowance.text(capture.text, allowance.place(name)),
                                 files=files, stderr=allowance.text(capture.stderr),
                                 note=allowance.text(capture.note))
    return Recording(snapshot.node, snapshot.received, host, failure, captures)


def _file(scrubber: Scrubber, path: str, text: str) -> str:
    if path.endswith("/mountinfo"):
        return paths.mountinfo(scrubber, text)
    if path == resolver.PATH:
        return "\n".join(_resolved(scrubber, line) for line in text.split("\n"))
    if path == FSTAB:
        return paths.fstab(scrubber, text)
    if forms.IDENTITY.search(path):
        return "\n".join(scrubber.opaque("serial number", line) if line.strip() else line
                         for line in text.split("\n"))
    if forms.HOST_FILE.search(path):
        return "\n".join(scrubber.host(line) if line.strip("() \t") not in ("", "none") else line
                         for line in text.split("\n"))
    if path == "/proc/cmdline":
        return paths.command_line(scrubber, text)
    if path == "/proc/net/route":
        return "\n".join(_route(scrubber, line) for line in text.split("\n"))
    if path == "/proc/swaps":
        return "\n".join(paths.swap(scrubber, line) for line in text.split("\n"))
    return scrubber.text(text, patterns=forms.VERSION_FILE.search(path) is None)


# Interface, destination, gateway, and the rest, with the mask.
_ROUTE = re.compile(r"(\S+\s+)([0-9A-Fa-f]{8})(\s+)([0-9A-Fa-f]{8})(\s.*)", re.DOTALL)


def _route(scrubber: Scrubber, line: str) -> str:
    """A line of /proc/net/route, whose addresses are bare hexadecimal; 0 is no address."""
    found = _ROUTE.fullmatch(line)
    if found is None:
        return scrubber.text(line)
    to, gateway = (address if not address.strip("0")
                   else scrubber.replacements.hexadecimal("IPv4 address", address.lower())
                   for address in (found[2], found[4]))
    return f"{scrubber.text(found[1])}{to}{found[3]}{gateway}{found[5]}"


def _resolved(scrubber: Scrubber, line: str) -> str:
    """A line of resolv.conf; what it searches are domains, whatever their form."""
    found = forms.RESOLVED.fullmatch(line)
    return (scrubber.text(line) if found is None
            else found[1] + re.sub(r"[^\s#;]+", lambda word: scrubber.domain(word[0]), found[2]))


def node(scrubber: Scrubber, node: Node) -> Node:
    """The inventory data for a replay: ports by PCI address with role and rail;
    places and labels as stand-ins."""

    def place(kind: str, value: str | None) -> str | None:
        return (None if value is None
                else scrubber.replacements.name(kind, value.lower(), f"{kind.split()[0]}{{}}"))

    ports = {pci: PortPlan(plan.role, plan.rail, place("leaf name", plan.leaf))
             for pci, plan in node.ports.items()}
    labels = {str(place("label", key)): str(place("label", value)) for key, value in node.labels.items()}
    sku, profile = (None if name is None else scrubber.text(name, patterns=False)
                    for name in (node.sku, node.profile))
    return Node(
        name=NODE, sku=sku, profile=profile, lifecycle=replace(node.lifecycle, owner=None, until=None),
        rack=place("rack", node.rack), leaf=tuple(str(place("leaf name", leaf)) for leaf in node.leaf),
        ports=ports, labels=labels, nvlink_domain=place("NVLink domain", node.nvlink_domain),
        power=place("power domain", node.power),
    )


def _whole(text: str) -> str:
    """A cut text without partial words at its ends, because a part of a name would not be recognised."""
    first, newline, rest = text.partition("\n")
    if newline and not forms.RECORD.match(first) and forms.RECORD.match(rest):
        text = rest
    return (text if text.endswith("\n")
            else text[: max(text.rfind(" "), text.rfind("\n"), text.rfind(",")) + 1])


def texts(snapshot: Recording) -> Iterable[str]:
    """Every text of the recording that may hold a name."""
    if snapshot.failure is not None:
        yield snapshot.failure.reason
    if snapshot.host is not None:
        yield from (snapshot.host.hostname, snapshot.host.boot_id)
    for capture in snapshot.captures.values():
        yield from (capture.text, capture.stderr, capture.note)
        for path, entry in capture.files.items():
            yield from (path, entry.text)
