"""All that a connection to one node needs: the inventory over ssh_config over the defaults of ssh."""

from __future__ import annotations

from dataclasses import dataclass, field

from inventory.model import Node
from inventory.sshconfig import SshAlgorithms, SshConfig, SshOptions, default_config, home, local_user

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")     # the kinds of ssh's defaults that need no token
OWN_KNOWN_HOSTS = "muster_known_hosts"      # of muster alone: in ~/.ssh, and never hashed
DEFAULT_KNOWN_HOSTS = ("known_hosts", "known_hosts2")
DEFAULT_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True)
class SshTarget:
    """What a connection to one node needs: the inventory over ssh_config over the defaults. `identity_files`
    were asked for when `identities_given`, else they are the usual ones; no file need exist. `proxy_jump` is
    None for a direct connection."""

    name: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...]
    identities_given: bool
    identities_only: bool
    identity_agent: str | None
    known_hosts_files: tuple[str, ...]
    revoked_host_keys: str | None
    host_key_alias: str | None
    proxy_jump: str | None
    proxy_command: str | None
    connect_timeout: float | None
    address_family: str
    algorithms: SshAlgorithms = field(default_factory=SshAlgorithms)
    control_path: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def known_hosts_name(self) -> str:
        """What the host is called in known_hosts: its alias, its name, or [name]:port for a port but 22."""
        if self.host_key_alias is not None:
            return self.host_key_alias
        host = self.hostname.lower()
        return host if self.port == 22 else f"[{host}]:{self.port}"


def options_for(
    name: str, config: SshConfig | None = None, *, address: str | None = None, user: str | None = None,
    port: int | None = None,
) -> SshOptions:
    """What the files say about `name`; `config` None: ~/.ssh/config and /etc/ssh/ssh_config, read once. What
    the inventory gives (address, user, port) counts as on ssh's command line: it wins, and Match and tokens
    see it. Raises ConfigError, one line naming file and line."""
    return (config if config is not None else default_config()).lookup(
        name, address=address, user=user, port=port)


def resolve(node: Node, options: SshOptions) -> SshTarget:
    """The node's own values over the options over ssh's defaults. Without known_hosts files in the inventory,
    muster's own counts beside those of ssh. A limit given to muster is over ConnectTimeout."""
    ssh = home() / ".ssh"
    given = node.identity_file or options.identity_files
    jump = node.proxy_jump if node.proxy_jump is not None else options.proxy_jump
    users = options.user_known_hosts_files
    if users is None:
        users = tuple(str(ssh / name) for name in DEFAULT_KNOWN_HOSTS)
    machines = options.global_known_hosts_files
    return SshTarget(
        name=node.name,
        hostname=node.address or options.hostname,
        port=node.port or options.port or 22,
        user=node.user or options.user or local_user(),
        identity_files=given or (() if options.no_identity_files
                                 else tuple(str(ssh / name) for name in DEFAULT_KEYS)),
        identities_given=bool(given) or options.no_identity_files,
        identities_only=options.identities_only,
        identity_agent=options.identity_agent,
        known_hosts_files=tuple(dict.fromkeys(
            (*(node.known_hosts_file or (own_known_hosts(), *users)),
             *(machines if machines is not None else DEFAULT_GLOBAL_KNOWN_HOSTS)))),
        revoked_host_keys=options.revoked_host_keys,
        host_key_alias=options.host_key_alias,
        proxy_jump=None if jump is None or jump.lower() == "none" else jump,
        proxy_command=options.proxy_command if node.proxy_jump is None else None,
        connect_timeout=options.connect_timeout if node.given_limits.connect is None else None,
        address_family=options.address_family,
        algorithms=options.algorithms,
        control_path=options.control_path,
        needs=options.needs,
    )


def target_for(node: Node, config: SshConfig | None = None) -> SshTarget:
    """`options_for` and `resolve` in one, so that Match blocks and tokens see what the inventory gives."""
    return resolve(node, options_for(node.name, config, address=node.address, user=node.user, port=node.port))


def own_known_hosts() -> str:
    """The file in which muster pins host keys unless another is named; it need not exist."""
    return str(home() / ".ssh" / OWN_KNOWN_HOSTS)
