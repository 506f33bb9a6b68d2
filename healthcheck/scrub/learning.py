"""The first pass: learns names from known places and phrases of a recording and the inventory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from healthcheck.facts import resolver
from healthcheck.facts.filesystem import FSTAB, PSEUDO
from healthcheck.model.recording import Recording
from healthcheck.scrub import patterns as forms
from healthcheck.scrub.classify import fstab_fields, is_secret, mount_fields, parameters, servers, unescape
from healthcheck.scrub.names import SensitiveNames
from healthcheck.scrub.words import AUTHORITIES, STANDARD
from inventory.model import Node


def learned(
    snapshots: Sequence[Recording], node: Node, hosts: Iterable[str], users: Iterable[str], haystack: str,
) -> SensitiveNames:
    """The names in these snapshots, whose texts are in `haystack`, and those of the
    inventory and known ones."""
    names = SensitiveNames()
    names.learn_host(node.name)
    for snapshot in snapshots:
        if snapshot.host is not None:
            names.learn_host(snapshot.host.hostname)
        for name, capture in snapshot.captures.items():
            for document in _json_lines(capture.text):
                _docker(names, document) if name == "docker.info" else _ids(names, document)
            for path, entry in capture.files.items():
                if path.endswith("/mountinfo"):
                    _mounts(names, entry.text)
                if path == FSTAB:
                    _fstab(names, entry.text)
                if path == resolver.PATH:
                    _domains(names, entry.text)
                if forms.HOST_FILE.search(path):
                    names.learn_host(entry.text.strip())
    for host in (node.address, *(node.proxy_jump or "").split(","), node.bmc.address if node.bmc else None,
                 *hosts):
        names.learn_host((host or "").rpartition("@")[2].partition(":")[0])
    for user in (node.user, node.bmc.user if node.bmc else None, *users):
        names.learn("user name", user or "")
    for place in (node.rack, *node.leaf, node.power, node.nvlink_domain, *node.labels.values()):
        names.learn("site name", place or "")
    pieces = (whole[at: at + forms.LONGEST] for whole in haystack.splitlines()
              for at in range(0, len(whole), forms.LONGEST))
    for line in dict.fromkeys(pieces):
        _phrases(names, line)
        _digits(names, line)
    names.index()
    return names


def _phrases(names: SensitiveNames, line: str) -> None:
    for kind, pattern in forms.LEARN:
        for match in pattern.finditer(line):
            if forms.UNIT.search(line[match.start(): match.end() + 10]):
                continue
            for name in filter(None, match.groups()):
                names.learn_host(name) if kind == "host name" else names.learn(kind, name)
    for match in forms.SLURM.finditer(line) if "slurm" in line.lower() else ():
        names.learn_host(match[1] or match[2])
    for match in forms.CERTIFICATE.finditer(line):
        for name in forms.TERM.findall(match[2]):
            if name.lower().strip(".-") not in AUTHORITIES and not forms.KEY_ID.fullmatch(name):
                names.learn("site name", name)
    for pattern in (forms.SERIAL_CAPITALS, forms.SERIAL_LETTERS):
        for match in pattern.finditer(line):
            names.learn("serial number", match[2])
    for match in forms.INSTANCE.finditer(line):
        for piece in forms.PARTS.split(match[2])[::2] if match[1] not in forms.DEVICE_TEMPLATES else ():
            if (piece.lower().rstrip("0123456789") not in STANDARD and not forms.DEVICES.fullmatch(piece)
                and forms.NAMES.fullmatch(piece)):
                names.learn("path name", piece)
    for pattern in forms.FQDNS:
        for match in pattern.finditer(line):
            names.learn_host(match[1])
    for match in forms.SECRET.finditer(line):
        if not match[1].lower().startswith("pwd"):
            names.learn("secret", match[2].strip("\"'"))
    for match in forms.COMMAND_LINE.finditer(line):
        for key, value in parameters(match[2]):
            if is_secret(key, value):
                names.learn("secret", value.strip("\"'"))
    for match in forms.SERIAL.finditer(line):
        names.learn("serial number", match[2])


def _digits(names: SensitiveNames, line: str) -> None:
    for match in forms.GUID.finditer(line):
        names.digits.add(match[3].lower())
    for match in forms.GROUPS.finditer(line):
        if not match[0].lower().startswith(forms.OUI_VENDOR):
            names.digits.add(match[0].replace(":", "").lower())
    for match in forms.PAIRS.finditer(line):
        names.digits.add(match[0].replace(match[1], "").lower())
    for match in forms.ENX.finditer(line):
        names.digits.add(match[2].lower())
    for match in forms.CONTAINER.finditer(line):
        names.digits.add(match[2].lower())


def _docker(names: SensitiveNames, info: Any) -> None:
    if isinstance(info, dict):
        names.learn_host(str(info.get("Name") or ""))
        for plugin in (*_plugins(info.get("Plugins")), *_plugins(info.get("Runtimes")),
                       str(info.get("DefaultRuntime") or "")):
            names.learn("plug-in name", plugin.partition(":")[0])
        config = info.get("RegistryConfig")
        for registry in (config or {}).get("IndexConfigs") or () if isinstance(config, dict) else ():
            names.learn_host(str(registry).partition(":")[0])
        for host in re.split(r"[,\s]+", str(info.get("NoProxy") or "")):
            names.learn_host(host.lstrip("*.").partition(":")[0].partition("/")[0])


def _ids(names: SensitiveNames, document: Any) -> None:
    for key, value in document.items() if isinstance(document, dict) else ():
        found = value.get("ok") if isinstance(value, dict) else value
        if key in forms.ID_KEYS and isinstance(found, str):
            names.learn("serial number", found)


def _mounts(names: SensitiveNames, text: str) -> None:
    for line in text.split("\n"):
        fields = mount_fields(line)
        if fields is None:
            continue
        left, right = fields
        _servers(names, unescape(right[1]))
        for path in (left[3], left[4], *([right[1].partition(":")[2] or right[1]] if right[0] not in PSEUDO
                                         else [])):
            names.learn_path(unescape(path))


def _fstab(names: SensitiveNames, text: str) -> None:
    """What is not mounted has its server and share here only."""
    for line in text.split("\n"):
        fields = fstab_fields(line)
        if fields is None:
            continue
        source, point, fstype, *rest = map(unescape, fields[1::2])
        _servers(names, source)
        names.learn_path(point)
        if fstype not in PSEUDO and not forms.BY_MARK.match(source):
            names.learn_path(source[1:] if source.startswith("//") else source.partition(":")[2] or source)
        for option in rest[0].split(",") if rest else ():
            key, _, value = option.partition("=")
            if key in forms.HOST_OPTIONS:
                names.learn_host(value)
            elif key in ("domain", "dom"):
                names.learn("site name", value)


def _domains(names: SensitiveNames, text: str) -> None:
    for line in text.split("\n"):
        found = forms.RESOLVED.match(line)
        for domain in found[2].split() if found else ():
            # A label alone is a domain here, and would be a host elsewhere.
            names.learn_host(f"host.{domain}") if "." in domain.strip(".") else names.learn(
                "domain name", domain)


def _servers(names: SensitiveNames, source: str) -> None:
    for _, host, _, _ in servers(source):
        names.learn_host(host)


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
