"""IMEX, the service through which GPUs of several nodes share memory over NVLink: whom a node's configuration
names, and the domain as its `nvidia-imex-ctl` shows it.

The forms are those of NVIDIA's IMEX guide (nodes_config.cfg, nvidia-imex-ctl -N -j) and of DCGM, which reads
the same command (DcgmImexManager.cpp). A node without IMEX's list of nodes has no such thing.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.values import Fact, Unmeasured, Unread
from healthcheck.model.probes import KIB, Probe, ProbeKind
from inventory.text import clean

PATH = "/etc/nvidia-imex/nodes_config.cfg"
NODES = Probe("imex.nodes", ProbeKind.FILES, paths=(PATH,), limit=64 * KIB)
# Both run only where IMEX is set up. The paths of the service's logs are root's alone, and without root the
# tool only says that it cannot read its configuration. It asks every node of the domain over the network: a
# document of 18 nodes with 18 connections each is some 40 KiB. The addresses are wanted only with it.
DOMAIN = Probe("imex.domain", ProbeKind.COMMAND, argv=("nvidia-imex-ctl", "-N", "-j"), each=(PATH,), most=1,
               seconds=12.0, each_s=10.0, limit=256 * KIB, root=True)
ADDRESSES = Probe("imex.addresses", ProbeKind.COMMAND, argv=("hostname", "-I"), each=(PATH,), most=1,
                  seconds=5.0, each_s=3.0, limit=16 * KIB, root=True)
NAME = "IMEX"
CONNECTED = "CONNECTED"
READY, UP = "READY", "UP"
# The states of a domain and of a service (DCGM's DcgmImexManager.cpp); a newer one is shown as unknown.
STATES = frozenset((UP, "DEGRADED", "DOWN", READY, "UNAVAILABLE", "INITIALIZING", "STARTING_AUTH_SERVER",
                    "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU", "SHUTTING_DOWN"))
MOST_NODES = 1024       # of a domain; 72 GPUs are 18 nodes


class ImexNodes(Fact):
    """The nodes that IMEX's configuration names, in its order, which numbers them: addresses or names."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class ImexMember:
    """One node of an IMEX domain as another node, or itself, sees it: its address as the configuration names
    it, its host name where the tool shows it, its state in IMEX's words (READY, UNAVAILABLE ...), the version
    of its service (empty where it was not learned), and the members to which it is not connected, with the
    state of each connection."""

    host: str
    hostname: str
    status: str
    version: str
    unconnected: tuple[tuple[str, str], ...]


class ImexDomain(Fact):
    """The domain as one node sees it: UP, DEGRADED or DOWN in `status`, and its members in their order.

    `own` is the member that the node itself is, by its addresses or its host name.
    """

    name: str
    status: str
    members: tuple[ImexMember, ...]
    own: ImexMember


def node_list(text: str) -> tuple[str, ...]:
    """The nodes of a nodes_config.cfg: one a line; # begins a comment. Addresses are in their usual form."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple([_host(line) for line in lines if line])


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return clean(text, 255).lower()


@fact("imex_nodes", NODES)
def imex_nodes(captures: Captures) -> ImexNodes:
    """The list of nodes; UNSUPPORTED where there is no such file."""
    found: Any
    try:
        found = captures.files(NODES).optional(PATH, node_list)
    except Unread as error:
        found = Unmeasured(str(error))
    return ImexNodes(PATH, found)


@fact("imex_domain", DOMAIN, besides=(ADDRESSES,), of_snapshot=True)
def imex_domain(captures: Captures) -> ImexDomain:
    """The domain; UNSUPPORTED where IMEX has no list of nodes."""
    try:
        answers = captures.devices(DOMAIN)
    except Unread as error:
        return ImexDomain.absent(NAME, Unmeasured(str(error)))
    answer = answers.get(PATH)
    if answer is None:
        return ImexDomain.absent(NAME)
    if isinstance(answer, Unmeasured):
        return ImexDomain.absent(NAME, Unmeasured(answer.reason.replace(PATH, "nvidia-imex-ctl")))
    try:
        status, members = domain(answer.text)
    except ValueError:
        words = clean(answer.complaint or answer.text, 120)
        return ImexDomain.absent(NAME, Unmeasured(
            f"nvidia-imex-ctl ended with exit status {answer.exit} and showed no domain: {words}"))
    own: Any = _own(members, _addresses(captures), captures.host.hostname) or Unmeasured(
        "no member of the IMEX domain has an address or the name of this node")
    return ImexDomain(NAME, status, members, own)


def domain(text: str) -> tuple[str, tuple[ImexMember, ...]]:
    """The domain's state and its members; raises ValueError for anything but the tool's document."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict) or not isinstance(document.get("status"), str) or len(nodes) > MOST_NODES:
        raise ValueError("not the document of nvidia-imex-ctl")
    numbered = sorted(nodes.items(), key=lambda item: (len(item[0]), item[0]))
    return _state(document), tuple([_member(node) for _, node in numbered])


def _member(node: Any) -> ImexMember:
    if not isinstance(node, dict) or not isinstance(node.get("host"), str):
        raise ValueError("a node without an address")
    peers = node.get("connections")
    unconnected = [(_host(_text(peer, "host")), _word(peer, "status"))
                   for peer in (peers.values() if isinstance(peers, dict) else ()) if isinstance(peer, dict)
                   and _word(peer, "status") != CONNECTED]
    hostname, version = _text(node, "hostName"), _text(node, "version")
    return ImexMember(_host(node["host"]), "" if hostname == "N/A" else hostname.lower(),
                      _state(node), "" if version == "N/A" else version, tuple(sorted(unconnected)))


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return clean(value, 255) if isinstance(value, str) else ""


def _state(document: Mapping[str, Any]) -> str:
    word = _word(document, "status")
    return word if word in STATES else f"unknown ({word})"


def _word(document: Mapping[str, Any], key: str) -> str:
    return _text(document, key).upper()[:40] or "-"


def _addresses(captures: Captures) -> frozenset[str]:
    """The node's own addresses; none where they were not captured."""
    try:
        answer = captures.devices(ADDRESSES).get(PATH)
    except Unread:
        return frozenset()
    return frozenset(map(_host, answer.text.split())) if isinstance(answer, DeviceOutput) else frozenset()


def _own(members: tuple[ImexMember, ...], addresses: frozenset[str], hostname: str) -> ImexMember | None:
    """The one member that this node is."""
    name = hostname.lower()
    found = ([member for member in members if member.host in addresses]
             or [member for member in members if name and name in (member.host, member.hostname)]
             or [member for member in members if name and _label(name) in map(_label, (
                 member.host, member.hostname))])
    return found[0] if len(found) == 1 else None


def _label(name: str) -> str:
    """A host name without its domain; an address stays whole."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return name
