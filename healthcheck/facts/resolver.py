"""How a node resolves names: /etc/resolv.conf (resolv.conf(5)), and whether it finds its own name
(hostname(1), -i)."""

from __future__ import annotations

import ipaddress

from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.limits import NAME_SERVERS
from healthcheck.facts.values import Fact, Unmeasured, Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

PATH = "/etc/resolv.conf"
RESOLV = Probe("host.resolver", ProbeKind.FILES, paths=(PATH,))
# A silent name server takes twice five seconds (resolv.conf(5), timeout and attempts), which is longer than
# this probe waits.
OWN_NAME = Probe("host.own-name", ProbeKind.COMMAND, argv=("hostname", "-i"), seconds=3.0, limit=4096)


class Resolver(Fact):
    """`servers` are the addresses that are asked, in their order; empty where the file names none or is not
    there."""

    name: str
    servers: tuple[str, ...]


class OwnName(Fact):
    """Whether the node's host name resolves to an address, and the tool's message in `trouble` where it does
    not."""

    name: str
    resolves: bool
    trouble: str


def servers(text: str) -> tuple[str, ...]:
    """The nameserver lines' addresses; raises ValueError for one that is none."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "nameserver":
            found.append(str(ipaddress.ip_address(words[1].partition("%")[0])))
    return tuple(found[:NAME_SERVERS])


@fact("resolver", RESOLV)
def resolver(captures: Captures) -> Resolver:
    """The name servers; none without the file, and the resolver then asks the node itself."""
    files = captures.files(RESOLV)
    if list(files) and not files.has(PATH):
        return Resolver("resolver", ())
    return Resolver("resolver", servers=files.read(PATH, servers))


@fact("own_name", OWN_NAME)
def own_name(captures: Captures) -> OwnName:
    """The result of `hostname -i`; UNSUPPORTED without the tool. A timeout means a silent resolver."""
    capture = captures.capture(OWN_NAME)
    if captures.outcome(OWN_NAME) is Outcome.MISSING:
        return OwnName.absent("host name")
    if capture is not None and capture.outcome is Outcome.DONE and capture.exit == 1:
        lines = capture.stderr.strip().splitlines() or ["hostname -i ended with exit status 1"]
        return OwnName("host name", False, clean(lines[-1], 100))
    # A command that did not get its full time has measured nothing.
    if capture is not None and capture.outcome is Outcome.TIMEOUT and capture.seconds >= OWN_NAME.seconds:
        return OwnName("host name", False, f"no answer within {OWN_NAME.seconds:g} s")
    try:
        words = captures.text(OWN_NAME).split()
        [ipaddress.ip_address(word.partition("%")[0]) for word in words[:NAME_SERVERS]]
    except Unread:
        return OwnName.absent("host name", Unmeasured(why(OWN_NAME, capture)))
    except ValueError:
        return OwnName.absent("host name", Unmeasured("hostname -i gave something else than addresses"))
    if not words:
        return OwnName("host name", False, "no address")
    return OwnName("host name", True, "")
