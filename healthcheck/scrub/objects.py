"""Lines of JSON, as NVML's reader, Docker and smartctl give them: what a value is, its key says."""

from __future__ import annotations

import json
from typing import Any

from healthcheck.scrub import paths
from healthcheck.scrub import patterns as forms
from healthcheck.scrub.engine import Scrubber
from healthcheck.scrub.vocabulary import known
from healthcheck.scrub.words import ENGINE


def scrubbed(scrubber: Scrubber, line: str) -> str:
    """One line, of JSON or not."""
    if not line.startswith(("{", "[")):
        return scrubber.text(line)
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return scrubber.text(line)
    compact = '": ' not in line[:200]
    return json.dumps(_value(scrubber, document, ""), separators=(",", ":") if compact else None)


def _value(scrubber: Scrubber, value: Any, key: str) -> Any:
    low = key.lower()
    if isinstance(value, dict):
        if low.endswith("commit"):
            return value
        if low == "labels":
            return {str(_value(scrubber, k, key)): _value(scrubber, v, key) for k, v in value.items()}
        if low == "runtimes":
            return {_plugin_name(scrubber, k): _value(scrubber, v, "runtime") for k, v in value.items()}
        if low == "plugins":
            return {k: [_plugin_name(scrubber, each) if isinstance(each, str)
                        else _value(scrubber, each, "plugin") for each in v] if isinstance(v, list)
                    else _value(scrubber, v, "plugin") for k, v in value.items()}
        # A reading {"ok": value} is of the kind that its key in the line above says.
        return {k if known(k) else scrubber.text(k): _value(scrubber, v, key if k == "ok" else k)
                for k, v in value.items()}
    if isinstance(value, list):
        clients = low == "plugins"
        return [_client_plugin(scrubber, each) if clients and isinstance(each, dict)
                else _value(scrubber, each, key) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if low == "labels":
        return "=".join(scrubber.named("label", part) for part in value.split("="))
    if low == "name" and key == "Name":
        name, colon, port = value.partition(":")
        return scrubber.host(name) + colon + port if port.isdigit() else scrubber.host(value)
    if low in ("trustroot", "certissuersubject", "productlicense"):
        return scrubber.replacements.like("certificate", value)
    if low in forms.ID_KEYS:
        return scrubber.opaque("serial number" if low not in ("uuid", "id", "nodeid") else "identifier",
                               value)
    if low.endswith("version") or low in ("driver", "nvml", "operatingsystem", "architecture", "pci", "name"):
        return scrubber.text(value, patterns=False)
    if low in ("container", "image"):
        return scrubber.replacements.name(f"{low} name", value, low + "{}")
    # A state is one letter; what a site's programs are called may tell what it works on.
    driver = value.startswith(("nvidia", "nv-", "nv_")) and known(value)
    if low == "processes" and len(value) > 1 and not driver:
        return scrubber.replacements.name("process name", value, "process{}")
    if low in ("httpproxy", "httpsproxy", "noproxy") or low.endswith("password"):
        return scrubber.text(value) if "://" in value or "." in value else scrubber.opaque("secret", value)
    if low in ("defaultruntime", "initbinary", "runtimetype") or (low == "path" and "/" not in value):
        return _plugin_name(scrubber, value)
    if low == "path":
        return _program(scrubber, value)
    if low == "dockerrootdir":
        return paths.scrubbed(scrubber, value)
    if low == "context":
        return value if value in ("default", "rootless", "desktop-linux") else scrubber.named("label", value)
    return scrubber.text(value)


def _plugin_name(scrubber: Scrubber, name: str) -> str:
    """A plug-in's or a runtime's name where nothing else stands; those that everyone has stay."""
    head, colon, tag = name.partition(":")
    low = head.lower()
    if low in ENGINE:
        return name
    return (paths.scrubbed(scrubber, head) if "/" in head
            else scrubber.named("plug-in name", low)) + colon + tag


def _program(scrubber: Scrubber, path: str) -> str:
    """Where a plug-in or a runtime lies."""
    folder, slash, program = path.rpartition("/")
    folder = (scrubber.text(folder) if forms.SYSTEM_TREES.match(folder + slash)
              else paths.scrubbed(scrubber, folder))
    return folder + slash + (program if program.removeprefix("docker-") in ENGINE
                             else paths.pieces(scrubber, program))


def _client_plugin(scrubber: Scrubber, found: dict[str, Any]) -> dict[str, Any]:
    """One of the client's plug-ins, with where it lies and who made it."""
    known = str(found.get("Name", "")).lower() in ENGINE
    made = _value(scrubber, {key: value for key, value in found.items() if key != "Name"}, "plugin")
    for key in ("Vendor", "ShortDescription", "URL"):
        if isinstance(found.get(key), str) and not known:
            made[key] = scrubber.replacements.like("plug-in name", found[key])
    if isinstance(found.get("Name"), str):
        made["Name"] = _plugin_name(scrubber, found["Name"])
    return {key: made[key] for key in found if key in made}
