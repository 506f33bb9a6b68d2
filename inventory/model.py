"""The inventory's model: nodes and sites as frozen values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class LifecycleState(Enum):
    """Where a node stands; only `service` counts in exit codes, alerts and breaker denominators."""

    PLANNED = "planned"
    BRINGUP = "bringup"
    SERVICE = "service"
    MAINTENANCE = "maintenance"
    RMA = "rma"
    RETIRED = "retired"


class Privilege(Enum):
    """What a sweep may do on the node beyond the login user's rights."""

    UNPRIVILEGED = "unprivileged"    # nothing: values that need root are shown as not seen
    HELPER = "helper"                # run a root-owned helper on the node, which accepts ids of probes only
    BECOME = "become"                # run the whole collector through sudo: equal to root


class Via(Enum):
    """Which SSH client reaches a node."""

    AUTO = "auto"            # in this process, unless ssh_config asks for what only the system's ssh can do
    PARAMIKO = "paramiko"    # in this process: cheapest
    # the system's ssh: certificates, GSSAPI, FIDO keys, everything in the user's ssh_config
    OPENSSH = "openssh"


@dataclass(frozen=True)
class Lifecycle:
    """A state, who owns the node while it is in it, and until when that is expected to last."""

    state: LifecycleState = LifecycleState.SERVICE
    owner: str | None = None
    until: dt.date | None = None


@dataclass(frozen=True)
class PortPlan:
    """What one port is for, keyed in `Node.ports` by PCI address (mlx5_N is only a display name). What a node
    does not say (None) its SKU says of that address; a role that neither says is `compute`. `expect` is "up"
    (also where it is not said), or "down" for a port without a link."""

    role: str | None = None
    rail: int | None = None
    leaf: str | None = None
    expect: str | None = None


class Speaks(Enum):
    """The protocol of a management controller."""

    REDFISH = "redfish"
    IPMI = "ipmi"


class SecretFrom(Enum):
    """Where a password comes from when needed; it is never in the inventory."""

    FILE = "file"           # its first line; others must not be able to read the file
    ENV = "env"             # a variable of the environment
    COMMAND = "command"     # the first line that a program prints, such as a keyring's


@dataclass(frozen=True)
class Secret:
    """Where a password is: a path, a variable, or a program's words; {node} in them is the node's name."""

    source: SecretFrom
    words: tuple[str, ...]


@dataclass(frozen=True)
class Bmc:
    """How to reach a management controller. `port` None: the protocol's own (443, 623). `tls` says how its
    certificate is trusted: "pin" (its fingerprint was pinned), "verify" (the system's authorities), or a file
    of authorities. `system` is the Redfish id where it has several."""

    address: str
    user: str | None = None
    port: int | None = None
    speaks: Speaks = Speaks.REDFISH
    secret: Secret | None = None
    tls: str = "pin"
    system: str | None = None


@dataclass(frozen=True)
class BurnInSettings:
    """How a node takes part in burn-in. `python` starts a Python that has torch, () for the node's own;
    `ranks` processes take part where that is not one per GPU; `watts` is what the whole node draws."""

    python: tuple[str, ...] = ()
    ranks: int | None = None
    watts: float | None = None


@dataclass(frozen=True)
class StageLimits:
    """The most seconds for a stage of reaching a node; None where not said. `connect`: name, TCP and banner,
    and again the key exchange; `auth`: until a key was accepted; `login`: until the shell has run our
    command; `node`: the program's work."""

    connect: float | None = None
    auth: float | None = None
    login: float | None = None
    node: float | None = None

    def __bool__(self) -> bool:
        """Whether anything is said."""
        return self != NO_LIMITS

    def over(self, other: StageLimits) -> StageLimits:
        """These, and the other's where these say nothing."""
        return StageLimits(*(theirs if ours is None else ours for ours, theirs in (
            (self.connect, other.connect), (self.auth, other.auth), (self.login, other.login),
            (self.node, other.node))))


NO_LIMITS = StageLimits()


@dataclass(frozen=True)
class Node:
    """One machine. `name` is its identity; where a field is None, ssh_config or a default decides. `address`
    and `port` are what to connect to (None: HostName and Port, else the name itself and 22). `ports` is keyed
    by PCI address in full form, "0000:18:00.0". `boot_mac` are hardware addresses that it boots from over the
    network. `unread` are devices of which nothing is read, by name or PCI address, with * and ?. `limits` are
    the entries', `default_limits` those of `defaults`; a SKU's count between them."""

    name: str
    address: str | None = None
    port: int | None = None
    user: str | None = None
    transport: Via = Via.AUTO
    privilege: Privilege = Privilege.UNPRIVILEGED
    identity_file: tuple[str, ...] = ()
    known_hosts_file: tuple[str, ...] = ()
    proxy_jump: str | None = None
    python: str = "python3"
    sku: str | None = None
    profile: str | None = None
    lifecycle: Lifecycle = Lifecycle()
    rack: str | None = None
    leaf: tuple[str, ...] = ()
    ports: Mapping[str, PortPlan] = field(default_factory=lambda: MappingProxyType({}))
    nvlink_domain: str | None = None
    power: str | None = None
    boot_mac: tuple[str, ...] = ()
    bmc: Bmc | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    unread: tuple[str, ...] = ()
    burnin: BurnInSettings = BurnInSettings()
    limits: StageLimits = NO_LIMITS
    default_limits: StageLimits = NO_LIMITS

    @property
    def words(self) -> tuple[str, ...]:
        """The program's arguments for this node; everything else is the same for all nodes."""
        return (*(("helper",) if self.helper else ()), *(f"without={pattern}" for pattern in self.unread))

    @property
    def become(self) -> bool:
        """Whether the whole collector runs as root."""
        return self.privilege is Privilege.BECOME

    @property
    def helper(self) -> bool:
        """Whether a root-owned helper on the node does what needs root."""
        return self.privilege is Privilege.HELPER

    @property
    def given_limits(self) -> StageLimits:
        """The limits that were given for it, over any that muster or ssh_config has."""
        return self.limits.over(self.default_limits)

    @property
    def in_service(self) -> bool:
        """Whether this node counts in exit codes, alerts and breaker denominators."""
        return self.lifecycle.state is LifecycleState.SERVICE


class IsolationBackend(Enum):
    """What keeps jobs away from a node of this site."""

    SLURM = "slurm"
    HOSTFILE = "hostfile"       # a file of the nodes that jobs leave out
    GOLDEN = "golden"           # a file of the nodes that jobs may use
    COMMAND = "command"         # the site's own program
    KUBERNETES = "kubernetes"


@dataclass(frozen=True)
class InKubernetes:
    """Which cluster, and what a node is called there: what {node} in `name` gives, or the `label` whose value
    is its name here. `config` is the absolute path of a kubeconfig, None for the usual ones or a pod's own
    account. With `condition` a node condition shows triage's verdict."""

    config: str | None = None
    context: str | None = None
    name: str = "{node}"
    label: str | None = None
    condition: bool = False


@dataclass(frozen=True)
class CordonBy:
    """The site's choice of what keeps jobs away: the absolute `path` of a file, a command, or a cluster;
    `seconds` is for one question. `lists` is the command that lists the marks, empty where none can."""

    by: IsolationBackend
    path: str | None = None
    argv: tuple[str, ...] = ()
    seconds: float = 30.0
    kubernetes: InKubernetes | None = None
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class StorageMount:
    """A mount that every node writes to and reads from, and how many bytes (None: as the length of a burn-in
    asks), in `folder` below it ("" for the mount itself)."""

    path: str
    bytes: int | None = None
    folder: str = ""


@dataclass(frozen=True)
class SiteBurnIn:
    """What holds for every burn-in of the site: how much power it may draw in all and per power domain, and
    at which address nodes reach the head. `params` replace parameters of the work, by "kind.name" (see
    `healthcheck.burnin.params`); `nccl_tests` is the folder in which nodes have all_reduce_perf, None where
    their PATH leads to it; `setup_s` is how long a group of ranks may take to set up and begin, besides what
    each rank adds. `env` is set for all-reduces, over `profile`, a named set of such settings
    (rules/burnin.yaml). `storage` are the mounts whose speed is measured.
    """

    max_kw: float | None = None
    domain_kw: float | None = None
    head: str | None = None
    params: Mapping[str, int | float | str] = field(default_factory=lambda: MappingProxyType({}))
    nccl_tests: str | None = None
    setup_s: float | None = None
    profile: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    storage: tuple[StorageMount, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """All nodes in the file's order, and its groups (expanded). `source` is the file, or a phrase such as
    "names on the command line". `cordon` is None where nothing says what keeps jobs away."""

    nodes: Mapping[str, Node]
    groups: Mapping[str, tuple[str, ...]]
    source: str
    cordon: CordonBy | None = None
    burnin: SiteBurnIn = SiteBurnIn()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)
