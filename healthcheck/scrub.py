"""Makes a recording fit to be shown to anybody: what tells whose machine it is gives way to stand-ins, and facts stay as they are.

Two passes. The first learns the names in use (hosts, users, domains, secrets of the kernel's command line, parts of paths) from
places whose form is known and from phrases that name one; the second replaces those words wherever they occur, and besides
them all that looks like an address, an identifier, a key or a secret. PCI addresses, versions, models, numbers and times stay.
When in doubt an identifier is replaced; a word that kernels, drivers and standard paths use is no name, whoever is called so.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.facts.filesystem import PSEUDO
from healthcheck.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.scrubwords import AUTHORITIES, ENGINE, ORDINARY, PARAMETERS, PUBLIC, STANDARD, TLDS
from healthcheck.standins import StandIns
from inventory.model import Node, PortPlan
from inventory.transport.base import Failure

NODE = "node1"
_PLACE = 0xF0000            # a piece that is done is one character of plane 15 while the others are worked on
_PLACES = 0xFFF0
_LONGEST = 32_768           # characters of a line that are worked on together

_SIBLINGS = 100
_BEGIN = re.compile(r"(?<![a-z])[a-z]|(?<=\\x[0-9a-f]{2})[a-z]|(?<![0-9a-z])[^a-z]")
_UNIT = re.compile(r"\.(?:service|socket|timer|mount|automount|slice|scope|target|device|path|swap)\b")
_NAMES = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_PARTS = re.compile(rf"([\s_.,:@=+~%#{chr(_PLACE)}-{chr(_PLACE + _PLACES)}-]+|\\x[0-9a-f]{{2}}|\\[0-7]{{3}})")


@dataclass(frozen=True)
class Scrubbed:
    """A recording, its earlier look and its node's place in the inventory, scrubbed together, and how many of each kind were replaced."""

    recording: Recording
    previous: Recording | None
    node: Node
    counts: Mapping[str, int]


def scrub(
    recording: Recording, node: Node, *, previous: Recording | None = None, key: bytes,
    hosts: Iterable[str] = (), users: Iterable[str] = (),
) -> Scrubbed:
    """The same thing has the same stand-in throughout. `hosts` and `users` are names known beforehand; `key` is random, and not kept."""
    looks = [recording, *([previous] if previous is not None else [])]
    scrubber = _Scrubber(key, looks, node, hosts, users)
    return Scrubbed(
        scrubber.recording(recording), scrubber.recording(previous) if previous is not None else None, scrubber.node(node),
        dict(scrubber.standins.counts),
    )


def replaced(counts: Mapping[str, int]) -> str:
    """'3 host names, 8 GPU UUIDs', the most numerous first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n} {kind if n == 1 else kind + ('es' if kind.endswith('s') else 's')}" for kind, n in ordered) or "nothing"


# ---- what is learned from phrases: (kind, pattern whose groups hold names)

# Behind '@' a pointer (req@ffff9a3c5e7f0123) and the other end of a veth (veth1a2b3c4@if12).
_NO_HOST = r"(?!(?:0x[0-9a-f]+|ffff[0-9a-f]{0,12}|[0-9a-f]{8}(?:[0-9a-f]{8})?|if\d{1,6})(?![\w.-]))"
_NO_NAME = re.compile(f"(?i){_NO_HOST.replace('(?!', '(?:', 1)}")
_SLURM_NAME = (
    r"(?!(?:is|was|are|not|in|on|of|to|at|has|had|with|and|for|the|a|an|no|all|connect\w*|communicat\w*|config\w*|regist\w*|respond\w*|"
    r"state|count|list|slurm\w*|failed|failure|error|returned|reboot\w*|down|drain\w*|idle|unable|invalid|zero|job|step|launch\w*|"
    r"sched\w*|backfill|reconfig\w*|info|warning|fatal|verbose|debug\w*|low|name|names|unexpected\w*|now|cannot|can|gres|memory|cpus?|switch\w*|port|socket|received|time\w*|killed|terminat\w*)\b)"
    r"([a-z][\w.-]{0,252})")
# A user is named.
_USERS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?i)(?:\b(?:(?:for|of|by) (?:invalid )?user:?|invalid user)|\(user:?) '?([a-z_][\w.-]{0,63})"),
    re.compile(r"\bsu(?:\[\d{1,9}\])?: (?:FAILED SU )?\(to ([A-Za-z_][\w.-]{0,63})\) ([A-Za-z_][\w.-]{0,63})"),
    re.compile(r"(?i)\buser(?:name)?:? (?:\\?[\"'`])([a-z_][\w.-]{0,63})(?:\\?[\"'`])"),
    re.compile(r"(?i)\buser(?:name)?:? ([a-z_][\w.-]{0,63}) (?:is|was|may|does|has|cannot|not|denied)\b"),
    re.compile(r"(?i)\buserid=([a-z_][\w.-]{0,63})"),
    re.compile(r"\bby ([a-z_][\w.-]{0,63})\(uid="),
    re.compile(r"\bsudo:\s{1,8}([a-z_][\w.-]{0,63}) : "),
    re.compile(r"\bCRON\[\d{1,9}\]: \(([a-z_][\w.-]{0,63})\)"),
    re.compile(r"(?:Accepted|Failed) [\w/-]+ for (?:invalid user )?([A-Za-z_][\w.-]{0,63}) from"),
    re.compile(
        r"(?i)(?<![\w.])(?:a?uid|acct|user(?:name)?|login|logname|sudo_user|ruser|owner)=[\"']?([a-z_][\w.-]{0,63})"),
)
# Too short to be a name, and often none.
_BRIEF = frozenset(("a", "an", "as", "at", "by", "do", "id", "if", "in", "is", "it", "no", "of", "on", "or", "so", "to", "up"))
_LEARN: tuple[tuple[str, re.Pattern[str]], ...] = (
    *(("user name", pattern) for pattern in _USERS),
    ("user name", re.compile(r"(?:/home|/Users|/export/home|/home/users|/mnt/home)/([A-Za-z_][\w.-]{0,63})")),
    ("host name", re.compile(r"(?i)hostname(?: set)? to <?([a-z0-9][\w.-]{0,252})>?")),
    ("host name", re.compile(r"(?<![\w.])ip=(?:[^: ]*:){4}([A-Za-z][\w.-]{0,252}):")),
    ("host name", re.compile(r"(?i)\b(?:hostname|nodename|fqdn)[=:] *\"?([a-z0-9][\w.-]{0,252})")),
    ("host name", re.compile(
        r"(?i)\b(?:nfs\w{0,20}|cifs|ceph|lustre|rpc\.\w{1,20})\b[^\n]{0,80}\b(?:server|host) "
        r"(?!(?:returned|reported|wrote|sent|cheating|does|did|rejected|while|side|rebooted|lost|went)\b)([a-z][\w.-]{0,252})")),
    ("host name", re.compile(r"(?i)\b(?:nfs|mount)\b[^\n]{0,80}[ '\"]([a-z][\w.-]{0,252}):/[\w.-]")),
    ("host name", re.compile(r"(?i)\bcifs\b[^\n]{0,80}?(?://|\\\\|\\x5c\\x5c)([a-z][\w.-]{0,252})")),
    ("host name", re.compile(r"(?i)\b(?:https?|tcp|ssh|s?ftp|tftp|ldaps?|nfs|iscsi)://(?:[^\s/@]{1,200}@)?([a-z][\w.-]{0,252})")),
    ("host name", re.compile(r"cert '([A-Za-z][\w.-]{0,252}) Secure Boot Module Signature key")),
    ("host name", re.compile(rf"(?i)\b(?:JOB \d{{1,12}}|STEP [\w.]{{1,24}}) ON {_SLURM_NAME}")),
    ("host name", re.compile(r"(?i)\bslurm\w{0,8}\[([a-z][\w.-]{0,252})\]")),
    ("host name", re.compile(
        r"(?i)\b(?:node(?:host)?name|nodeaddr|nodelist|slurmctld(?:host|addr)|control(?:machine|addr)|backupcontroller|batchhost|dbdhost|"
        r"(?:accounting)?storagehost|slurmdhost)=\"?([a-z][\w.-]{0,252})")),
    ("site name", re.compile(r"(?i)\b(?:clustername|partition(?:name)?|account|jobname|wckey|qos)=\"?([a-z][\w.-]{0,63})")),
    ("host name", re.compile(r"(?i)\bnode[ _]desc(?:ription)?\W{1,4}(?!mt\d|connectx|mellanox|nvidia|mlx\d)([a-z0-9][\w.-]{0,252})")),
    ("plug-in name", re.compile(
        r"(?i)\b(?:unknown (?:or invalid )?runtime|(?:authorization |volume |network |log |logging )plug-?in|denied by plugin)(?: name)?:? "
        r"\\?[\"']?(?!(?:is|was|not|failed|error|with|for|and|has|does)\b)([a-z][\w./-]{2,63})")),
    ("path name", re.compile(r"\brd\.lvm\.[lv][vg]=([\w.+-]{1,63})(?:/([\w.+-]{1,63}))?")),
    ("path name", re.compile(r"(?i)\bvolume group \"?([\w.+-]{1,63})")),
    ("site name", re.compile(r"\b([A-Za-z]\w{3,15})-(?:OST|MDT)[0-9a-f]{4}\b")),
    ("host name", re.compile(rf"(?<![\w./-])(?:[A-Za-z_][\w.+-]{{0,63}}@){_NO_HOST}([A-Za-z][\w.-]{{0,252}})")),
    ("user name", re.compile(rf"(?<![\w./-])([A-Za-z_][\w.+-]{{0,63}})@{_NO_HOST}[A-Za-z][\w.-]{{0,252}}")),
)
# In lines that speak of Slurm.
_SLURM = re.compile(
    rf"(?i)\b(?:(?<=[a-z] )(?:slurmctld|slurmdbd|slurmd|controller)(?: host| daemon)?(?::| at| on| host)|nodes?|host|backup|primary) \"?"
    rf"{_SLURM_NAME}|\[([a-z][\w.-]{{1,252}})\]:\d{{2,5}}\b")
_COMMAND_LINE = re.compile(r"((?:[Cc]ommand line|command line parameters): ?\"?)([^\n]*)")
_SECRET = re.compile(
    r"(?i)((?:password|passwd|passphrase|pwd|secret|token|api_?key|credential|auth_?key|private_?key|access_?key|psk|cookie)"
    r"[\w.]{0,12}[\"']?\s{0,2}[=:]\s{0,2}|(?<![\w-])pass=)(\"[^\"]{1,400}\"|'[^']{1,400}'|[^\s,;\"']{1,400})")
_GUID = re.compile(r"(?i)(guid\w{0,12}[\"']?\s{0,3}[=:]?\s{0,8}[\"']?)(0x)?([0-9a-f]{16})(?![0-9a-z])")

_UUID = re.compile(
    r"(?i)((?:GPU-|MIG-)?)(?<![0-9a-z])([0-9a-f]{8})(-|_|\\x2d)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{12})(?![0-9a-z])")
_GROUPS = re.compile(r"(?i)(?<![0-9a-z:])[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![0-9a-z]|:[0-9a-f])")
_PAIRS = re.compile(r"(?i)(?<![0-9a-z:.-])[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4,31}(?![0-9a-z]|[:.-][0-9a-z])")
_CISCO = re.compile(r"(?i)(?<![0-9a-z.:])(?=[0-9.]*[a-f])[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?![0-9a-z.])")
_IPV6 = re.compile(r"(?i)(?<![0-9a-z:.])(?=[0-9a-f]*:)[0-9a-f:]{2,39}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?(?![0-9a-z:])")
_IPV4 = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?!\d|\.\d)")
_DASHED = re.compile(r"(?<![0-9A-Za-z])((?:ip|host|node)-)(\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3})(?![\d-])")
_VERSION = re.compile(r"(?i)(?:version|(?<![a-z])ver|firmware|(?<![a-z])fw|bios)[\s:=#\"'({]{0,4}v?$|(?<![a-z])v$")
# What tells of a version as well, but where an address can stand too: 'kernel: 192.168.0.7 sent', '10.0.0.1-manager'.
_MAYBE_VERSION = re.compile(
    r"(?i)(?<![a-z])(?:driver|release|rev|revision|kernel|nvml|cuda|module|nvrm|build|microcode|abi|api)[\s=#\"'({]{0,4}v?$"
    r"|(?<!\.\d)(?<!\.\d\d)(?<!\.\d\d\d)[-+~]$(?<=\d.)|vmlinuz-$|linux-$")
_MAYBE_RELEASE = re.compile(r"[-+~_](?!m(?:a|an|ana|anag|anage|anager)?\b)(?!\d{1,3}(?:\.\d{1,3}){3})[A-Za-z0-9]")
# What follows an address, even behind 'version', and what follows a version, even one that could be an address of a private network.
_REACHED = re.compile(
    r"(?i):\d{2,5}(?!\d)|/\d{1,2}(?!\d)|[\])>]?:?\s{1,3}(?:port\b|sent|sends|refused|rejected|reset by|closed|unreachable|"
    r"unknown host|timed out|"
    r"responded|responding|replied|does|did|is (?:un|not |down|dead|alive|up\b|at\b)|not (?:respond|reach)|has not|->|dev\b|via\b|on eth)")
_SPEAKS_OF_CODE = re.compile(
    r"(?i)[\w.+~-]{0,40}[)\"']?,?\s{1,3}(?:loaded|loading|initiali[sz]|registered|started|starting|installed|built|build|compiled|released?\b|"
    r"for (?:kernel|linux)|kernel\b|\(|vmlinuz)|[-+~](?:generic|rc\d|smp|el\d|lts|server|amd64|x86_64)")
_TOWARDS = re.compile(r"(?i)\b(?:to|from|by|at|with|via) (?:the )?[a-z]{2,12}[\s=:]{0,3}$")
_BARE = re.compile(r"(?i)(?<![0-9a-z])(0x)?([0-9a-f]{12,})(?![0-9a-z])")
_ENX = re.compile(r"(?i)(?<![0-9a-z])(enx|wlx|veth-?mac)([0-9a-f]{12})(?![0-9a-z])")
_ADDRESSED = re.compile(
    r"(?i)(?:status|addr\w*|misc\w*|synd\w*|ipid\w*|mem\w*|regs?|bar|page|pfn|offset|bank|cap\w*|ctl|base|size|start|end|range|mask|rip|"
    r"rsp|cr\d|error|code|e820|feature\w*|flags?|table|state|value|val|event|tsc|at|to|from|io)\b[^0-9a-z\n]{0,12}$|[-+]$")
_WORLDWIDE = re.compile(r"(?i)(?:naa|eui|wwn|nguid|wwid|wwpn|wwnn|ppin|san|serial)\W{0,4}$")
_OUI_VENDOR = ("10de", "15b3", "8086", "1002", "1022", "14e4", "144d", "1a03", "1d0f", "1000", "19e5", "1b4b", "1c5c", "1344", "1e0f")

_KEEP = re.compile(r"MODALIAS=\S+|(?<![\w-])(?:pci|usb|acpi|of|dmi|hid|cpu|platform|virtio|pnp):[A-Za-z]?\S*\d\S*")
_FINGERPRINT = re.compile(r"(SHA256:)([A-Za-z0-9+/]{43})=?|((?:ssh-\w+|ecdsa-[\w-]+) )(AAAA[A-Za-z0-9+/]{16,}=*)")
_DOCKER_ID = re.compile(r"(?<![A-Z0-9:])(?:[A-Z2-7]{4}:){11}[A-Z2-7]{4}(?![A-Z0-9:])")
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?!_Z)(?:(?:gh[opsu]|glpat|hf|sk|xox[abp]|dop|npm)[-_][A-Za-z0-9_-]{10,}|A[KS]IA[0-9A-Z]{12,}|eyJ[A-Za-z0-9_.-]{20,}"
    r"|(?=[^\s]{0,200}[0-9])(?=[^\s]{0,200}[A-Z])(?=[^\s]{0,200}[a-z])[A-Za-z0-9+_]{40,}={0,2})(?![A-Za-z0-9+=])")
_SERIAL = re.compile(
    r"(?i)(\b(?:serial(?:[ _-]?(?:number|num|no))?|s/n|sn|(?:asset|service)[ _-]?tag|board[ _]id|part[ _]number)"
    r"\.?[\"']?\s{0,2}[:=#]?\s{0,4}\"?)"
    r"((?=[A-Z-]{0,40}[0-9])[A-Z0-9][A-Z0-9-]{4,63})(?![\w:/.])")
# One without a digit is told from a word by its capitals, or by the colon before it.
_SERIAL_CAPITALS = re.compile(
    r"(\b(?i:serial(?:[ _-]?(?:number|num|no))?|s/n|sn)\.?[\"']?\s{0,2}[:=#]?\s{0,4}\"?)"
    r"(?!ATAPI?\b|ATTACHED\b|OVER\b)([A-Z][A-Z-]{3,63})(?![\w:/.])")
_SERIAL_LETTERS = re.compile(
    r"(\b(?i:serial[ _-]?(?:number|num|no)|s/n)\.?[\"']?\s{0,2}[:=#]\s{0,4}\"?)([A-Za-z][A-Za-z-]{3,63})(?![\w:/.])")
_CERTIFICATE = re.compile(r"(?i)(\bcert(?:ificate)? ['\"])([^'\"\n]{1,300})(?=['\"])")
_TERM = re.compile(r"[^\W_][\w.-]*")
_KEY_ID = re.compile(r"(?i)[0-9a-f]{8,128}")
_NODE_DESC = re.compile(r"(?i)(\bnode[ _]desc(?:ription)?[\"']?\s{0,2}[:=]?\s{0,4})(\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|[^\s,;\"']{1,64})")
_DESCRIBED = re.compile(r"(?i)(?:mlx\d\w*|mt\d+|connectx\S*|mellanox|technologies|nvidia|hca-?\d*|hfi\w*|bluefield\S*|quantum\S*|\d+)")
_CLOUD = re.compile(
    r"(?<![A-Za-z0-9-])((?:i|ami|aki|vol|snap|eni|vpc|subnet|sg|igw|rtb|acl|eipalloc|eipassoc|fs|fsap|lt|tgw|nat|pg|cr|r)-)"
    r"((?=[a-f]*[0-9])[0-9a-f]{17}|(?=[a-f]*[0-9])[0-9a-f]{8})(?![0-9A-Za-z])")
_VOLUME = re.compile(r"(?<![A-Za-z0-9])(vol)([0-9a-f]{17})(?![0-9A-Za-z])")
_OCID = re.compile(r"\bocid1\.[a-z]{2,30}\.[a-z0-9.-]{2,80}")
_INTERFACE = re.compile(
    r"(?<![A-Za-z0-9-])(br-|veth|cali|azv|lxc|tap|qvo|qvb|qbr)((?=[a-f]*[0-9])[0-9a-f]{6,15}|[a-f]{7})(?![0-9A-Za-z])")
_ARRAY = re.compile(r"(?i)(?<![0-9a-z:])([0-9a-f]{8}(?::[0-9a-f]{8}){3})(?![0-9a-z:])")
_AUDIT_HEX = re.compile(r"(?<![\w.])((?:proctitle|name|exe|cwd|comm|path|acct|cmd|data)=)((?:[0-9A-F]{2}){3,4000})(?![\w.:-])")
_MOUNT_UNIT = re.compile(r"(?<![\w./\\-])((?!sys-|proc-|dev-|run-)[A-Za-z][\w\\:-]{0,200})(\.(?:mount|automount|swap))(?![\w-])")
_FILE_PATH = re.compile(
    rf"(?:(?<=[a-z]://)|(?<![\w./~%+{chr(_PLACE)}-{chr(_PLACE + _PLACES)}-]))"
    rf"/(?:[\w.+@~%=,\\#{chr(_PLACE)}-{chr(_PLACE + _PLACES)}-]{{1,255}}/?){{1,40}}")
_SYSTEM_TREES = re.compile(r"/(?:sys|proc|usr(?!/local/)|lib|lib32|lib64|bin|sbin|boot)(?:/|$)|/dev/(?!mapper/|md/|disk/|zvol/)")
# What /dev holds in folders of its own; any other folder there is a volume group.
_DEV_FOLDERS = re.compile(
    r"/dev/(?:disk|mapper|md|zvol|pts|shm|input|dri|infiniband|cpu|net|bus|snd|vfio|hugepages|mqueue|block|char|nvidia[\w-]*|fd|dma_heap|"
    r"fuse|kvm|log|ipmi\w*|vhost[\w-]*|tpm\w*)(?:/|$)")
_VOLUMES = re.compile(r"rd\.lvm\.(?:lv|vg)|rd\.luks\.name|rd\.md\.name|root|resume")
_PPIN = re.compile(r"(?i)(\bppin:? (?:0x)?)([0-9a-f]{8,16})(?![0-9a-z])")
_SSID = re.compile(
    r"(?i)(\be?ssid\b\s{0,2}[:=]?\s{0,2})(\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|[^\s\"',;()]{1,32}"
    r"(?: (?!(?:joined|freq\w*|bssid|chan\w*|signal|rssi|key|secur\w*|auth\w*|assoc\w*|connect\w*|disconnect\w*|on|at|with|via|using|"
    r"from|for|is|was|not|failed|found|lost|has|in|and|to|by)\b|[\w.-]+=)[^\s\"',;()]{1,32}){0,5})")
_USERINFO = re.compile(r"(?i)(//|\biscsi:)([^\s/:@\"']{1,64})(:[^\s/\"']{1,200})?@(?=[^\s@])")
_AUTHORIZATION = re.compile(
    r"(?i)(\bauthorization[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?:[a-z]{4,10} )?|\bbearer )([A-Za-z0-9._~+/=-]{8,4000})")
_LINK_HEADER = re.compile(r"(\bll header: [0-9a-f]{8}: )((?:[0-9a-f]{2} ){12,16})([^\n]*)")
_LABEL = re.compile(
    r"(BTRFS: device label |(?:PART)?LABEL=|by-label/|by-partlabel/|by-id/|nqn\.|iqn\.|(?:PART)?UUID=|by-uuid/)"
    r"(\"[^\"\n]{1,200}\"|[^\s,;\"']{1,200})")
_MAIL = re.compile(r"(?<![\w./+-])([A-Za-z_][A-Za-z0-9._%+-]{0,63})@([A-Za-z0-9][A-Za-z0-9.-]{0,252})")
_FQDN = re.compile(rf"(?i)(?<![\w@.-])((?:[a-z0-9_](?:[a-z0-9_-]{{0,61}}[a-z0-9])?\.){{1,8}}(?:{TLDS}))(?![\w-]|\.\w)")
_CONTAINER = re.compile(r"(?i)((?:docker|containerd?|crio|podman|shm|sandbox|overlay2)[-/ :]{1,2})([0-9a-f]{12})(?![0-9a-z])")
_RECORD = re.compile(r"(\d{1,6},\d{1,20},\d{1,20},[^;\n]{0,60};)")
_HOMES = re.compile(r"((?:/home|/Users)/)([A-Za-z_][\w.-]{0,63})((?:/[\w.+@~%=,-]{1,255}){0,40})")

_HOME = ("home", "users", "Users")
_KERNEL_TREES = ("/sys", "/proc", "/dev")
_NAMED_VOLUMES = ("/dev/mapper", "/dev/md", "/dev/disk", "/dev/zvol")
# Files that hold one identity and nothing else, by the end of their path.
_IDENTITY = re.compile(
    r"/(?:[\w-]*serial(?:_number)?|[\w-]*uuid|machine-id|boot_id|[\w-]*guid|nguid|eui|wwid|[\w-]*asset_tag|subsysnqn|hostnqn|hostid)$")
_HOST_FILE = re.compile(r"/(?:hostname|domainname|nodename)$")
_VERSION_FILE = re.compile(r"/(?:osrelease|version|ostype|fw_ver|hca_type|rate|state|phys_state|link_layer)$")

_ID_KEYS = frozenset((
    "uuid", "serial", "id", "serial_number", "part_number", "board_part_number", "board_serial", "guid", "nodeid", "board_id",
))

_FORM = {"site name": "site{}", "path name": "dir{}", "plug-in name": "plugin{}"}
_Handler = Callable[["_Scrubber", "re.Match[str]"], "str | None"]


class _Scrubber:
    """One recording's stand-ins and the words that it was found to name."""

    def __init__(self, key: bytes, looks: list[Recording], node: Node, hosts: Iterable[str], users: Iterable[str]) -> None:
        texts = [text for look in looks for text in _texts(look)]
        haystack = "\n".join(texts)
        self.standins = StandIns(key, haystack)
        self._kinds: dict[str, str] = {}
        self._known: set[str] = set()
        self._siblings: list[str] = []
        self._variants: dict[str, str] = {}
        self._cache: dict[str, str] = {}
        self._own = node.name.lower().partition(".")[0]
        self._learn_all(looks, node, hosts, users, haystack)
        self._index()

    # ---- learning

    def _learn_all(self, looks: list[Recording], node: Node, hosts: Iterable[str], users: Iterable[str], haystack: str) -> None:
        self.standins.preset("host name", self._own, NODE)
        self._learn_host(node.name)
        for look in looks:
            if look.host is not None:
                self._learn_host(look.host.hostname)
            for name, capture in look.captures.items():
                for document in _json_lines(capture.text):
                    self._learn_docker(document) if name == "docker.info" else self._learn_ids(document)
                for path, entry in capture.files.items():
                    if path.endswith("/mountinfo"):
                        self._learn_mounts(entry.text)
                    if _HOST_FILE.search(path):
                        self._learn_host(entry.text.strip())
        for host in (node.address, *(node.proxy_jump or "").split(","), node.bmc.address if node.bmc else None, *hosts):
            self._learn_host((host or "").rpartition("@")[2].partition(":")[0])
        for user in (node.user, node.bmc.user if node.bmc else None, *users):
            self._learn("user name", user or "")
        for place in (node.rack, *node.leaf, node.power, node.nvlink_domain, *node.labels.values()):
            self._learn("site name", place or "")
        for line in {whole[at: at + _LONGEST] for whole in haystack.splitlines() for at in range(0, len(whole), _LONGEST)}:
            for kind, pattern in _LEARN:
                for match in pattern.finditer(line):
                    if _UNIT.search(line[match.start(): match.end() + 10]):
                        continue
                    for name in filter(None, match.groups()):
                        self._learn_host(name) if kind == "host name" else self._learn(kind, name)
            for match in _SLURM.finditer(line) if "slurm" in line.lower() else ():
                self._learn_host(match[1] or match[2])
            for match in _CERTIFICATE.finditer(line):
                for name in _TERM.findall(match[2]):
                    if name.lower().strip(".-") not in AUTHORITIES and not _KEY_ID.fullmatch(name):
                        self._learn("site name", name)
            for pattern in (_SERIAL_CAPITALS, _SERIAL_LETTERS):
                for match in pattern.finditer(line):
                    self._learn("serial number", match[2])
            for match in _FQDN.finditer(line):
                self._learn_host(match[1])
            for match in _SECRET.finditer(line):
                if not match[1].lower().startswith("pwd"):
                    self._learn("secret", match[2].strip("\"'"))
            for match in _COMMAND_LINE.finditer(line):
                for key, value in _parameters(match[2]):
                    if _is_secret(key, value):
                        self._learn("secret", value.strip("\"'"))
            for match in _SERIAL.finditer(line):
                self._learn("serial number", match[2])
            self._learn_digits(line)

    def _learn_digits(self, line: str) -> None:
        for match in _GUID.finditer(line):
            self._known.add(match[3].lower())
        for match in _GROUPS.finditer(line):
            if not match[0].lower().startswith(_OUI_VENDOR):
                self._known.add(match[0].replace(":", "").lower())
        for match in _PAIRS.finditer(line):
            self._known.add(match[0].replace(match[1], "").lower())
        for match in _ENX.finditer(line):
            self._known.add(match[2].lower())
        for match in _CONTAINER.finditer(line):
            self._known.add(match[2].lower())

    def _learn(self, kind: str, word: str) -> None:
        """A word to replace wherever it stands alone, unless it is one that machines use themselves."""
        word = word.strip().strip(".,'\"")
        low = word.lower()
        least = 8 if word.isdigit() else 3 if kind in ("user name", "host name") else 4
        if len(word) < least or len(word) > 400 or low in ORDINARY or (kind == "plug-in name" and low in ENGINE) \
                or low in self._kinds or not any(c.isalnum() for c in word):
            return
        if _is_ip(word) or re.fullmatch(r"[0-9a-fA-F]{2,4}(?::[0-9a-fA-F]{2})*(?:\.\d)?|v?[\d.]+|/dev/[a-z]+\d*\w*", word):
            return
        self._kinds[low] = kind

    def _learn_host(self, name: str) -> None:
        name = name.strip().strip("[]<>.").lower()
        if not name or _is_ip(name) or name in ORDINARY or name in PUBLIC or any(name.endswith(f".{public}") for public in PUBLIC):
            return
        first, _, domain = name.partition(".")
        if _UNIT.search(name):
            return
        if domain and re.fullmatch(rf"(?i)[\w-]+(?:\.[\w-]+)*|{TLDS}", domain) and not domain.replace(".", "").isdigit():
            if "." in domain:
                self._learn("domain name", domain)
            else:
                self._learn("domain name", name)
            for label in name.split(".")[1 if "." in domain else 0:-1]:
                self._learn_site(label)
        if not domain or "." in domain:
            self._learn("host name", first)
            stem = first.rstrip("0123456789")
            digits = len(first) - len(stem)
            if digits >= (3 if stem.strip("-_") in ORDINARY else 2) and len(stem) >= 2:
                self._siblings.append(rf"{re.escape(stem)}\d{{{digits}}}")
            if "-" in stem or "_" in stem:
                for part in re.split(r"[-_]", stem):
                    self._learn_site(part)

    def _learn_site(self, label: str) -> None:
        label = label.strip("0123456789")
        if len(label) >= 4 and label.isalpha():
            self._learn("site name", label)

    def _learn_docker(self, info: Any) -> None:
        if isinstance(info, dict):
            self._learn_host(str(info.get("Name") or ""))
            for plugin in (*_plugins(info.get("Plugins")), *_plugins(info.get("Runtimes")), str(info.get("DefaultRuntime") or "")):
                self._learn("plug-in name", plugin.partition(":")[0])
            config = info.get("RegistryConfig")
            for registry in (config or {}).get("IndexConfigs") or () if isinstance(config, dict) else ():
                self._learn_host(str(registry).partition(":")[0])
            for host in re.split(r"[,\s]+", str(info.get("NoProxy") or "")):
                self._learn_host(host.lstrip("*.").partition(":")[0].partition("/")[0])

    def _learn_ids(self, document: Any) -> None:
        for key, value in document.items() if isinstance(document, dict) else ():
            found = value.get("ok") if isinstance(value, dict) else value
            if key in _ID_KEYS and isinstance(found, str):
                self._learn("serial number", found)

    def _learn_mounts(self, text: str) -> None:
        for line in text.split("\n"):
            before, dash, after = line.partition(" - ")
            left, right = before.split(" "), after.split(" ")
            if not dash or len(left) < 6 or len(right) < 3:
                continue
            server, colon, _ = _unescape(right[1]).partition(":/")
            if colon:
                self._learn_host(server.rpartition("@")[2].strip("[]"))
            for path in (left[3], left[4], *([right[1].partition(":")[2] or right[1]] if right[0] not in PSEUDO else [])):
                self._path(_unescape(path), learn=True)

    def _index(self) -> None:
        """Words by how they begin, so that a long log costs as much with ten thousand of them as with ten."""
        self._variants = {variant: word for word in self._kinds for variant in _variants(word)}
        lengths: dict[str, set[int]] = {}
        for variant in self._variants:
            lengths.setdefault(variant[:2], set()).add(len(variant))
        self._lengths = {begin: sorted(found, reverse=True) for begin, found in lengths.items()}
        siblings = "|".join(dict.fromkeys(self._siblings[:_SIBLINGS]))
        self._sibling = re.compile(rf"(?i)(?<![a-z0-9])(?:{siblings})(?![a-z0-9])") if siblings else None

    def _known_words(self, line: str) -> Iterable[tuple[int, int]]:
        """Where learned words stand, from left to right; a word of letters may touch digits, but no letters."""
        low = line.lower()
        low = low if len(low) == len(line) else line
        end = 0
        for match in _BEGIN.finditer(low):
            at = match.start()
            for length in self._lengths.get(low[at: at + 2], ()) if at >= end else ():
                word = low[at: at + length]
                if word in self._variants and not _touches(word[-1], low[at + length: at + length + 1]):
                    end = at + length
                    yield at, end
                    break

    # ---- words

    def word(self, word: str) -> str:
        """The stand-in of a learned word, or of one that stands where a name of a host stands."""
        low = word.lower()
        low = self._variants.get(low, low)
        kind = self._kinds.get(low, "host name")
        if kind == "host name":
            return self.standins.name(kind, low, "host{}")
        if kind == "user name":
            return self.standins.name(kind, low, "user{}")
        if kind == "domain name":
            return self.standins.name(kind, low, "domain{}.example")
        if kind in _FORM:
            return self.standins.name(kind, low, _FORM[kind])
        made = self.standins.like(kind, low)
        return made.upper() if word.isupper() else made

    def host(self, name: str) -> str:
        """A host's name in a place where nothing else stands; its first label and its domain have stand-ins of their own."""
        if not name or _is_ip(name):
            return self.text(name)
        first, dot, domain = name.strip().partition(".")
        if first.lower() in ("localhost", "localhost4", "localhost6"):
            return name
        label = NODE if first.lower() == self._own else self.word(first)
        if not dot:
            return label
        known = domain.lower() if domain.lower() in self._kinds else ""
        return f"{label}.{self.word(known) if known else self.standins.name('domain name', domain.lower(), 'domain{}.example')}"

    def user(self, name: str) -> str:
        """A user's name in a place where nothing else stands."""
        if name.lower() in ORDINARY:
            return name
        return self.word(name) if name.lower() in self._kinds else self.standins.name("user name", name.lower(), "user{}")

    def opaque(self, kind: str, value: str) -> str:
        """One identity, whatever its form; a known form keeps it."""
        done = self.text(value)
        # Of a secret not the part alone that has a form: in user:password@192.0.2.1 the rest is the secret.
        part = kind == "secret" and value.strip("\"'").lower() not in self._kinds and not any(form.fullmatch(value) for form in _FORMS)
        return done if len(value) < 2 or (done != value and not part) else self.standins.like(kind, value)

    # ---- text

    def text(self, text: str, patterns: bool = True) -> str:
        """Foreign text of any form, with all patterns and learned words replaced (without `patterns` only the words)."""
        return "\n".join(self._line(line, patterns) for line in text.split("\n"))

    def _line(self, line: str, patterns: bool) -> str:
        if not line:
            return line
        if len(line) > _LONGEST:
            cut = max(line.rfind(" ", 0, _LONGEST), line.rfind(",", 0, _LONGEST)) + 1 or _LONGEST
            return self._line(line[:cut], patterns) + self._line(line[cut:], patterns)
        prefix = ""
        if record := _RECORD.match(line):
            prefix, line = record[1], line[record.end():]
        key = line if patterns else ""
        if key in self._cache:
            return prefix + self._cache[key]
        done = self._work(line, patterns)
        if key and len(self._cache) < 10_000:
            self._cache[key] = done
        return prefix + done

    def _work(self, line: str, patterns: bool, words: bool = True) -> str:
        line = "".join("?" if ord(c) >= _PLACE else c for c in line) if any(ord(c) >= _PLACE for c in line) else line
        places: list[str] = []

        def put(text: str) -> str:
            if len(places) >= _PLACES:
                return "?"
            places.append(text)
            return chr(_PLACE + len(places) - 1)

        def apply(handler: _Handler) -> Callable[[re.Match[str]], str]:
            def replacement(match: re.Match[str]) -> str:
                new = handler(self, match)
                return match[0] if new is None else put(new)
            return replacement

        if patterns:
            for pattern, handler in _HANDLERS:
                line = pattern.sub(apply(handler), line)
        if words:
            for begin, end in reversed(list(self._known_words(line))):
                line = line[:begin] + put(self.word(line[begin:end])) + line[end:]
            if self._sibling is not None:
                line = self._sibling.sub(lambda match: put(self.word(match[0])), line)
        for pattern, handler in _PATHS if patterns and words else ():
            line = pattern.sub(apply(handler), line)
        # What is put may hold places itself: a group of a match that another pattern had worked on before.
        while places and any(ord(c) >= _PLACE for c in line):
            line = "".join(places[ord(c) - _PLACE] if ord(c) >= _PLACE else c for c in line)
        return line

    # ---- paths and mounts

    def _path(self, path: str, learn: bool = False) -> str:
        if path.startswith(_KERNEL_TREES) and not path.startswith(_NAMED_VOLUMES) and not _is_volume(path):
            return path if learn else self.text(path)
        parts = path.split("/")
        return "/".join(self._component(part, parts[at - 1] if at else "", learn) for at, part in enumerate(parts))

    def _component(self, part: str, parent: str, learn: bool) -> str:
        if not part or part.lower() in ORDINARY:
            return part
        if parent in _HOME:
            if learn:
                self._learn("user name", part)
                return part
            return self.user(part)
        if not learn and self._work(part, True, words=False) != part:
            return self.text(part)
        return self.pieces(part, learn)

    def pieces(self, part: str, learn: bool = False) -> str:
        """A component of a path whose words give way, unless they are what paths are made of everywhere."""
        if not learn and part.lower() in self._kinds:
            return self.word(part)
        return "".join(piece if at % 2 else self._piece(piece, learn) for at, piece in enumerate(_PARTS.split(part)))

    def _piece(self, piece: str, learn: bool) -> str:
        stem = piece.lower().rstrip("0123456789")
        if not stem or len(piece) < 2 or stem in ORDINARY or piece.lower() in ORDINARY:
            return piece
        if not learn and (stem in STANDARD or piece.lower() in STANDARD):
            return piece
        if not learn:
            return self.word(piece) if piece.lower() in self._kinds else self.standins.name("path name", piece, "dir{}")
        if len(piece) >= 4 and _NAMES.fullmatch(piece):
            self._learn("path name", piece)
        return piece

    def mountinfo(self, text: str) -> str:
        """The lines of mountinfo (proc(5)), whose mount points and sources stay one word each."""
        lines = []
        for line in text.split("\n"):
            before, dash, after = line.partition(" - ")
            left, right = before.split(" "), after.split(" ")
            if not dash or len(left) < 6 or len(right) < 3:
                lines.append(self.text(line))
                continue
            left[3], left[4] = (_escape(self._path(_unescape(path))) for path in (left[3], left[4]))
            if right[0] not in PSEUDO:
                right[1] = _escape(self.source(_unescape(right[1])))
            right[2] = ",".join(_escape(self._option(_unescape(option))) for option in " ".join(right[2:]).split(","))
            lines.append(" ".join(left) + dash + " ".join(right[:3]))
        return "\n".join(lines)

    def source(self, source: str) -> str:
        """What is mounted: a device, server:/export, //server/share, a data set, or a word of the file system's own."""
        if source.startswith("//"):
            server, slash, share = source[2:].partition("/")
            return f"//{self.host(server)}{slash}{self._path(share)}"
        server, colon, path = source.partition(":/")
        if colon and "/" not in server:
            user, at, name = server.rpartition("@")
            named = self.host(name) if _NAMES.fullmatch(name) and "," not in name else self.text(name)
            return f"{self.user(user) + at if at else ''}{named}:{self._path('/' + path)}"
        return self._path(source)

    def _option(self, option: str) -> str:
        key, equals, value = option.partition("=")
        if value.startswith("/") or "/" in value:
            return key + equals + ":".join(self._path(part) for part in value.split(":"))
        if key in ("user", "username", "domain", "fsname", "name", "mds_namespace", "clientname"):
            return key + equals + (self.user(value) if value.lower() not in ORDINARY else value)
        return self.text(option)

    # ---- the whole

    def recording(self, look: Recording) -> Recording:
        """The look with all text scrubbed; outcomes, exits, sizes and times stay."""
        failure = look.failure
        if failure is not None:
            failure = Failure(failure.stage, self.text(failure.reason))
        host = look.host
        if host is not None:
            host = Host(self.host(host.hostname), self.opaque("boot id", host.boot_id), host.time, host.uid, self.text(host.python),
                        host.machine, host.cpu_s)
        captures = {name: self._capture(name, capture) for name, capture in look.captures.items()}
        return Recording(NODE, look.received, host, failure, captures)

    def _capture(self, name: str, capture: Capture) -> Capture:
        cut = capture.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT)
        text = _whole(capture.text) if cut else capture.text
        files: dict[str, FileCapture] = {}
        mounts = any(path.endswith("/mountinfo") for path in capture.files)
        for path, entry in capture.files.items():
            held = _whole(entry.text) if entry.outcome in (Outcome.TRUNCATED, Outcome.TIMEOUT) else entry.text
            point = mounts and not path.endswith("/mountinfo")
            files[self._path(path) if point else self.text(path)] = FileCapture(entry.outcome, held if point else self._file(path, held))
        if name == "docker.info" or text.lstrip().startswith("{"):
            text = "\n".join(self._json_line(line) for line in text.split("\n"))
        else:
            text = self.text(text)
        return replace(capture, text=text, stderr=self.text(capture.stderr), files=files, note=self.text(capture.note))

    def _file(self, path: str, text: str) -> str:
        if path.endswith("/mountinfo"):
            return self.mountinfo(text)
        if _IDENTITY.search(path):
            return "\n".join(self.opaque("serial number", line) if line.strip() else line for line in text.split("\n"))
        if _HOST_FILE.search(path):
            return "\n".join(self.host(line) if line.strip("() \t") not in ("", "none") else line for line in text.split("\n"))
        if path == "/proc/cmdline":
            return self.command_line(text)
        if path == "/proc/swaps":
            return "\n".join(self._swap(line) for line in text.split("\n"))
        return self.text(text, patterns=_VERSION_FILE.search(path) is None)

    def _swap(self, line: str) -> str:
        path = line.split()[0] if line.startswith("/") else ""
        return _escape(self._path(_unescape(path))) + line[len(path):] if path else self.text(line)

    def command_line(self, text: str) -> str:
        """The kernel's command line: values that are none of the kernel's own common words give way."""
        words = []
        for word in re.split(r"(\s+|\"$)", text):
            key, equals, value = word.partition("=")
            if value.startswith("/"):
                words.append(key + equals + self._path(value))
            elif ":/" in value and "://" not in value:
                words.append(key + equals + self.source(value))
            elif _VOLUMES.fullmatch(key) and not re.match(r"(?:PART)?(?:UUID|LABEL)=", value):
                words.append(key + equals + self._path(value))
            elif _is_secret(key, value):
                words.append(key + equals + self.opaque("secret", value))
            else:
                words.append(self.text(word))
        return "".join(words)

    def _json_line(self, line: str) -> str:
        if not line.startswith(("{", "[")):
            return self.text(line)
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line)
        compact = '": ' not in line[:200]
        return json.dumps(self._json(document, ""), separators=(",", ":") if compact else None)

    def _json(self, value: Any, key: str) -> Any:
        low = key.lower()
        if isinstance(value, dict):
            if low.endswith("commit"):
                return value
            if low == "labels":
                return {str(self._json(k, key)): self._json(v, key) for k, v in value.items()}
            if low == "runtimes":
                return {self.plugin(k): self._json(v, "runtime") for k, v in value.items()}
            if low == "plugins":
                return {k: [self.plugin(each) if isinstance(each, str) else self._json(each, "plugin") for each in v]
                        if isinstance(v, list) else self._json(v, "plugin") for k, v in value.items()}
            # A reading {"ok": value} is of the kind that its key in the line above says.
            return {self.text(k): self._json(v, key if k == "ok" else k) for k, v in value.items()}
        if isinstance(value, list):
            return [self._plugin(each) if low == "plugins" and isinstance(each, dict) else self._json(each, key) for each in value]
        if not isinstance(value, str) or not value:
            return value
        if low == "labels":
            return "=".join(self.standins.name("label", part, "label{}") for part in value.split("="))
        if low == "name" and key == "Name":
            name, colon, port = value.partition(":")
            return self.host(name) + colon + port if port.isdigit() else self.host(value)
        if low in ("trustroot", "certissuersubject", "productlicense"):
            return self.standins.like("certificate", value)
        if low in _ID_KEYS:
            return self.opaque("serial number" if low not in ("uuid", "id", "nodeid") else "identifier", value)
        if low.endswith("version") or low in ("driver", "nvml", "operatingsystem", "architecture", "pci"):
            return self.text(value, patterns=False)
        if low == "name":
            return self.text(value, patterns=False)
        if low in ("httpproxy", "httpsproxy", "noproxy") or low.endswith("password"):
            return self.text(value) if "://" in value or "." in value else self.opaque("secret", value)
        if low in ("defaultruntime", "initbinary", "runtimetype") or (low == "path" and "/" not in value):
            return self.plugin(value)
        if low == "path":
            return self._program(value)
        if low == "dockerrootdir":
            return self._path(value)
        if low == "context":
            return value if value in ("default", "rootless", "desktop-linux") else self.standins.name("label", value, "label{}")
        return self.text(value)

    def plugin(self, name: str) -> str:
        """A plug-in's or a runtime's name where nothing else stands; those that everybody has stay."""
        head, colon, tag = name.partition(":")
        low = head.lower()
        if low in ENGINE:
            return name
        return (self._path(head) if "/" in head else self.standins.name("plug-in name", low, _FORM["plug-in name"])) + colon + tag

    def _program(self, path: str) -> str:
        """Where a plug-in or a runtime lies."""
        folder, slash, program = path.rpartition("/")
        folder = self.text(folder) if _SYSTEM_TREES.match(folder + slash) else self._path(folder)
        return folder + slash + (program if program.removeprefix("docker-") in ENGINE else self.pieces(program))

    def _plugin(self, found: dict[str, Any]) -> dict[str, Any]:
        """One of the client's plug-ins, with where it lies and who made it."""
        known = str(found.get("Name", "")).lower() in ENGINE
        made = self._json({key: value for key, value in found.items() if key != "Name"}, "plugin")
        for key in ("Vendor", "ShortDescription", "URL"):
            if isinstance(found.get(key), str) and not known:
                made[key] = self.standins.like("plug-in name", found[key])
        if isinstance(found.get("Name"), str):
            made["Name"] = self.plugin(found["Name"])
        return {key: made[key] for key in found if key in made}

    def node(self, node: Node) -> Node:
        """What replay takes of the inventory: ports by PCI address with role and rail; places and labels by stand-ins."""

        def place(kind: str, value: str | None) -> str | None:
            return None if value is None else self.standins.name(kind, value.lower(), f"{kind.split()[0]}{{}}")

        ports = {pci: PortPlan(plan.role, plan.rail, place("leaf name", plan.leaf)) for pci, plan in node.ports.items()}
        labels = {str(place("label", key)): str(place("label", value)) for key, value in node.labels.items()}
        sku, profile = (None if name is None else self.text(name, patterns=False) for name in (node.sku, node.profile))
        return Node(
            name=NODE, sku=sku, profile=profile, lifecycle=replace(node.lifecycle, owner=None, until=None), rack=place("rack", node.rack),
            leaf=tuple(str(place("leaf name", leaf)) for leaf in node.leaf), ports=ports, labels=labels,
            nvlink_domain=place("NVLink domain", node.nvlink_domain), power=place("power domain", node.power),
        )


# ---- what each pattern becomes; None leaves the text to the patterns after it


def _keep(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[0]


def _command_line(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + scrubber.command_line(match[2])


def _fingerprint(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    head, body = (match[1], match[2]) if match[1] else (match[3], match[4])
    return str(head) + scrubber.standins.like("key fingerprint", str(body))


def _userinfo(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if any(ord(c) >= _PLACE for c in match[0]):
        return None
    password = ":" + scrubber.standins.like("secret", match[3][1:]) if match[3] else ""
    return f"{match[1]}{scrubber.user(match[2])}{password}@"


def _link_header(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    """Two MAC addresses as the kernel dumps them, and in letters behind."""
    pairs = match[2].split()
    for at in (0, 6):
        raw = "".join(pairs[at: at + 6])
        if len(set(raw)) > 1:
            pairs[at: at + 6] = re.findall("..", scrubber.standins.mac(raw))
    return match[1] + " ".join(pairs) + " "


def _like(kind: str) -> _Handler:
    return lambda scrubber, match: scrubber.standins.like(kind, match[0])


def _headed(kind: str) -> _Handler:
    """The first group stays, and is looked through for words; the second is the thing."""

    def handle(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
        quote = match[2][0] if match[2][0] in "\"'" else ""
        value = match[2].strip(quote) if quote else match[2]
        low = value.lower()
        folder = value.startswith("/") and match[1].lower().startswith("pwd")      # the working directory, and no password
        if not value or folder or ord(value[0]) >= _PLACE or low in ORDINARY:
            return None
        return match[1] + quote + (scrubber.word(value) if low in scrubber._kinds else scrubber.standins.like(kind, value)) + quote

    return handle


def _label(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if any(ord(c) >= _PLACE for c in match[2]):
        return None
    return match[1] + scrubber.standins.like("identifier" if "UUID" in match[1] or match[1] == "by-uuid/" else "label", match[2])


def _uuid(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    kind = {"gpu-": "GPU UUID", "mig-": "MIG UUID"}.get(match[1].lower(), "UUID")
    raw = match[0][len(match[1]):]
    return match[1] + _redigit(raw, match[3], scrubber.standins.hexadecimal(kind, "".join(match.group(2, 4, 5, 6, 7)).lower()))


def _digits(scrubber: _Scrubber, digits: str) -> str:
    if len(digits) == 12:
        return scrubber.standins.mac(digits)
    return scrubber.standins.hexadecimal({16: "GUID", 32: "UUID"}.get(len(digits), "hexadecimal id"), digits)


def _pairs(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    raw = match[0].replace(match[1], "").lower()
    if len(set(raw)) == 1:
        return None
    if len(raw) == 40 and raw[8:12] == "fe80":       # an IPoIB address: flags and queue pair, then the port's GID
        return _redigit(match[0], match[1], raw[:24] + _digits(scrubber, raw[24:]))
    return _redigit(match[0], match[1], _digits(scrubber, raw))


def _groups(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    raw = match[0].replace(":", "").lower()
    if match[0].lower().startswith(_OUI_VENDOR) or len(set(raw)) == 1:
        return None
    return _redigit(match[0], ":", _digits(scrubber, raw))


def _cisco(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return _redigit(match[0], ".", _digits(scrubber, match[0].replace(".", "").lower()))


def _guid(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if len(set(match[3])) == 1:
        return match[0]
    return match[1] + (match[2] or "") + _redigit(match[3], "", _digits(scrubber, match[3].lower()))


def _ppin(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", scrubber.standins.hexadecimal("serial number", match[2].lower()))


def _second_is_digits(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", _digits(scrubber, match[2].lower()))


def _container(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _redigit(match[2], "", scrubber.standins.hexadecimal("container id", match[2].lower()))


def _bare(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    raw, prefix = match[2].lower(), match[1] or ""
    if len(set(raw)) == 1:
        return None
    before = match.string[max(0, match.start() - 40): match.start()]
    known = raw in scrubber._known
    if len(raw) >= 32 or known or _WORLDWIDE.search(before):
        return prefix + _redigit(match[2], "", _digits(scrubber, raw))
    address = raw.startswith(("0000", "ffff")) or "[Hardware Error]" in match.string or match.string[match.end(): match.end() + 1] == "-" \
        or _ADDRESSED.search(before) is not None
    return prefix + _redigit(match[2], "", _digits(scrubber, raw)) if prefix and len(raw) == 16 and not address else None


def _ipv6(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    text = match[0]
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        if not text.endswith(":") or text.endswith("::"):
            return None
        try:
            address, text = ipaddress.IPv6Address(text[:-1]), text[:-1]
        except ValueError:
            return None
    rest = match[0][len(text):]
    if address.is_loopback or address.is_unspecified:
        return match[0]
    full = address.exploded
    if full == text.lower() and full.startswith("fe80:"):        # a GID: its last half is the port's GUID
        return text[:20] + _redigit(text[20:], ":", _digits(scrubber, full[20:].replace(":", ""))) + rest
    made = scrubber.standins.ipv6(full)
    return (ipaddress.IPv6Address(made).exploded if full == text.lower() else made) + rest


def _ipv4(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    text = match[1]
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in text.split(".")):
        return None
    if text.startswith(("0.", "127.", "255.")):      # the first are versions, or the address 0.0.0.0
        return text
    before, after = match.string[max(0, match.start() - 24): match.start()], match.string[match.end(): match.end() + 20]
    reached = _REACHED.match(after) is not None
    if _VERSION.search(before) and not reached:
        return text
    if _MAYBE_VERSION.search(before) or _MAYBE_RELEASE.match(after):
        public = ipaddress.IPv4Address(text).is_global
        if not reached and (public or (_SPEAKS_OF_CODE.match(after) and not _TOWARDS.search(before))):
            return text
    return scrubber.standins.ipv4(text)


def _dashed(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    address = match[2].replace("-", ".")
    return match[1] + scrubber.standins.ipv4(address).replace(".", "-") if _is_ip(address) else None


def _mail(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    if _UNIT.search(match[0]) or match[2].lower() in ORDINARY:
        return None
    host = match[2].rstrip(".-")
    if host.replace(".", "").isdigit() or _NO_NAME.match(host):
        return None
    scrubber.standins.count("login", f"{match[1]}@{host}".lower())
    return f"{scrubber.user(match[1])}@{_named(scrubber, host)}{match[2][len(host):]}"


def _named(scrubber: _Scrubber, name: str) -> str:
    low = name.lower()
    if low in scrubber._kinds:
        return scrubber.word(low)
    if low.count(".") == 1:
        return scrubber.standins.name("domain name", low, "domain{}.example")
    return scrubber.host(name)


def _home(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + scrubber.user(match[2]) + scrubber._path(match[3])


def _user_phrase(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    """A name that is too short to be looked for elsewhere is replaced where a user stands."""
    made, end = "", match.start()
    for at in range(1, (match.re.groups or 0) + 1):
        name = match[at]
        if name.lower() not in scrubber._kinds and name not in _BRIEF:
            made += match.string[end: match.start(at)] + scrubber.user(name)
            end = match.end(at)
    return made + match.string[end: match.end()] if made and not _UNIT.search(match[0]) else None


def _certificate(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    """Words that authorities' certificates share stay; the rest tells who built the kernel."""
    def term(word: re.Match[str]) -> str:
        if _KEY_ID.fullmatch(word[0]):
            return _redigit(word[0], "", scrubber.standins.hexadecimal("key fingerprint", word[0].lower()))
        low = word[0].lower()
        if low in scrubber._kinds:
            return scrubber.word(low)
        return word[0] if low.strip(".-") in AUTHORITIES or low.isdigit() else scrubber.standins.like("certificate", word[0])

    return match[1] + _TERM.sub(term, match[2])


def _node_desc(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return match[1] + _TERM.sub(lambda word: word[0] if _DESCRIBED.fullmatch(word[0]) else scrubber.host(word[0]), match[2])


def _identified(kind: str) -> _Handler:
    """The first group stays, and the second is hexadecimal."""
    return lambda scrubber, match: match[1] + _redigit(match[2], "", scrubber.standins.hexadecimal(kind, match[2].lower()))


def _array(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return _redigit(match[1], ":", _digits(scrubber, match[1].replace(":", "").lower()))


def _mount_unit(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    return scrubber.pieces(match[1]) + match[2]


def _file_path(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    path = match[0]
    if _SYSTEM_TREES.match(path) and not _is_volume(path):
        return None
    return "/".join(part if part.lower() in ORDINARY else scrubber.pieces(part) for part in path.split("/"))


def _fqdn(scrubber: _Scrubber, match: re.Match[str]) -> str | None:
    low = match[1].lower()
    if low in PUBLIC or any(low.endswith(f".{public}") for public in PUBLIC):
        return match[1]
    return _named(scrubber, match[1])


# Identifiers that keep their form when a secret is one.
_FORMS = (_UUID, _PAIRS, _IPV4, _IPV6, _FQDN, _BARE, _DOCKER_ID)
_HANDLERS: tuple[tuple[re.Pattern[str], _Handler], ...] = (
    *((pattern, _user_phrase) for pattern in _USERS),
    (_COMMAND_LINE, _command_line), (_KEEP, _keep), (_FINGERPRINT, _fingerprint), (_USERINFO, _userinfo),
    (_AUTHORIZATION, _headed("secret")), (_LINK_HEADER, _link_header), (_SECRET, _headed("secret")), (_UUID, _uuid),
    (_HOMES, _home), (_DOCKER_ID, _like("identifier")), (_PAIRS, _pairs), (_IPV6, _ipv6), (_GUID, _guid), (_PPIN, _ppin),
    (_GROUPS, _groups), (_ARRAY, _array), (_CLOUD, _identified("cloud id")), (_VOLUME, _identified("cloud id")), (_OCID, _like("cloud id")),
    (_INTERFACE, _identified("interface id")), (_AUDIT_HEX, _identified("hexadecimal id")), (_CERTIFICATE, _certificate),
    (_NODE_DESC, _node_desc), (_CISCO, _cisco), (_IPV4, _ipv4), (_DASHED, _dashed), (_LABEL, _label), (_SERIAL, _headed("serial number")),
    (_SERIAL_CAPITALS, _headed("serial number")), (_SERIAL_LETTERS, _headed("serial number")), (_ENX, _second_is_digits),
    (_CONTAINER, _container), (_BARE, _bare), (_TOKEN, _like("secret")), (_SSID, _headed("SSID")), (_MAIL, _mail), (_FQDN, _fqdn),
)
# After the learned words, which in a path are known best.
_PATHS: tuple[tuple[re.Pattern[str], _Handler], ...] = ((_MOUNT_UNIT, _mount_unit), (_FILE_PATH, _file_path))


# ---- small things


def _touches(last: str, following: str) -> bool:
    return following.isascii() and (following.isalpha() if last.isalpha() else following.isalnum())


def _redigit(raw: str, separator: str, digits: str) -> str:
    """`digits` in the form of `raw`: its separators and its case."""
    letters = "".join(c for c in raw.replace("\\x2d", "") if c.isalpha())
    if letters and letters.isupper():
        digits = digits.upper()
    if not separator:
        return digits
    made, at = [], 0
    for part in raw.split(separator):
        made.append(digits[at: at + len(part)])
        at += len(part)
    return separator.join(made)


def _is_volume(path: str) -> bool:
    return path.startswith("/dev/") and path.count("/") == 3 and _DEV_FOLDERS.match(path) is None


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _parameters(text: str) -> Iterable[tuple[str, str]]:
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals:
            yield key, value


_PLAIN = re.compile(
    r"(?i)(?:on|off|auto|yes|no|none|force|nomodeset|strict|full|lazy|pt|debug|info|quiet|[yn]|[0-9.,:-]{1,11}[kmgt]?|0x[0-9a-f]{1,8})")


def _is_secret(key: str, value: str) -> bool:
    """Whether a parameter of the kernel's command line has a value that nobody but its owner can make sense of."""
    name = key.lower().strip("\"'").replace("-", "_")
    if not value or value.startswith(("/", "UUID=", "PARTUUID=", "LABEL=", "PARTLABEL=")) or (":/" in value and "://" not in value):
        return False
    return not (name in PARAMETERS or name.partition(".")[0] in PARAMETERS or _PLAIN.fullmatch(value.rstrip("\"'")))


_OCTAL = re.compile(r"\\([0-7]{3})")


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _escape(text: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", text)


def _variants(word: str) -> Iterable[str]:
    """A word as the kernel's log, mountinfo, device mapper and systemd write it."""
    yield word
    if "-" in word:
        yield word.replace("-", "--")
        yield word.replace("-", "\\x2d")
    if any(ord(c) > 126 or ord(c) < 33 for c in word):
        raw = word.encode("utf-8", "surrogateescape" if not any(0xD800 <= ord(c) < 0xDC80 for c in word) else "replace")
        yield "".join(chr(b) if 32 < b < 127 else f"\\x{b:02x}" for b in raw)
        yield "".join(chr(b) if 32 < b < 127 else f"\\{b:03o}" for b in raw)


def _plugins(listed: Any) -> Iterable[str]:
    """Names of plug-ins and runtimes: {"Volume": ["local"]} and {"runc": {"path": "runc"}}."""
    for key, value in listed.items() if isinstance(listed, dict) else ():
        if isinstance(value, dict):
            yield key
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


def _json_lines(text: str) -> Iterable[Any]:
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


def _whole(text: str) -> str:
    """A text that was cut, without the piece of a word at either end: a part of a name would not be known for what it is."""
    first, newline, rest = text.partition("\n")
    if newline and not _RECORD.match(first) and _RECORD.match(rest):
        text = rest
    return text if text.endswith("\n") else text[: max(text.rfind(" "), text.rfind("\n"), text.rfind(",")) + 1]


def _texts(look: Recording) -> Iterable[str]:
    """Every text of the look that may hold a name."""
    if look.failure is not None:
        yield look.failure.reason
    if look.host is not None:
        yield from (look.host.hostname, look.host.boot_id)
    for capture in look.captures.values():
        yield from (capture.text, capture.stderr, capture.note)
        for path, entry in capture.files.items():
            yield from (path, entry.text)
