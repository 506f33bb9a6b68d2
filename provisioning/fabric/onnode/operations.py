"""Asks the fabric about this machine's own port, and sets one port of a switch, once. Python 3.8.

Packets go by a directed route (smpquery(8), ibportstate(8): -D), which needs no subnet manager. Before a port
is set, the device at the end of the route and the one behind the port have to be those that the head means: a
cable may have been moved since the head looked. What became of the port is the head's to read back: the exit
status of ibportstate says nothing of that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from typing import Any, BinaryIO

BIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/ufm/opensm/bin"
TOOLS = ("smpquery", "ibportstate")
ROUTE = re.compile(r"0(,[0-9]{1,3}){0,63}")
DEVICE = re.compile(r"[0-9A-Za-z_-]{0,32}")
OPERATIONS = ("disable", "enable")
TOOL_S, MOST_TEXT = 20, 1 << 16


class PortUntouched(Exception):
    """Nothing was changed, for certain; one line for a person."""


def asked(argv: Any) -> Any:
    """What a tool printed, both streams one after the other; "" where it did not end."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TOOL_S)
    except OSError as error:
        return "", "%s: %s" % (argv[0], error.strerror)
    except subprocess.TimeoutExpired:
        return "", "%s did not end within %d s" % (argv[0], TOOL_S)
    last = done.stderr[-2000:].decode("utf-8", "replace").strip().split("\n")[-1]
    text = done.stdout[:MOST_TEXT].decode("utf-8", "replace")
    return text, last[:300] or "exit status %d" % done.returncode


def field(text: str, name: str) -> str:
    """The value of a line `Name:.....value` (libibmad's dump), "" where it is not there."""
    found = re.search(r"^%s:\.*([^\r\n]{1,100})$" % re.escape(name), text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def node_at(more: Any, route: str) -> Any:
    """The GUID of the device at the end of a route, and the port at which the packet came in."""
    text, why = asked(("smpquery", *more, "-D", "nodeinfo", route))
    guid = field(text, "Guid")
    if not guid:
        raise PortUntouched("nothing answers at the end of the route %s: %s" % (route, why))
    return "%016x" % int(guid, 16), int(field(text, "LocalPort") or 0)


def state_of(more: Any, route: str, port: int) -> Any:
    """The logical and physical state of a port, in lower case."""
    text, why = asked(("smpquery", *more, "-D", "portinfo", route, str(port)))
    logical, physical = field(text, "LinkState"), field(text, "PhysLinkState")
    if not logical or not physical:
        raise PortUntouched("the state of port %d was not read: %s" % (port, why))
    return logical.lower(), physical.lower()


def set_port(request: Any, more: Any) -> Any:
    """Checks that it is the port that is meant, and sets it."""
    route, port, operation = request["route"], request["port"], request["operation"]
    if ROUTE.fullmatch(route) is None or operation not in OPERATIONS or not 1 <= int(port) <= 254:
        raise PortUntouched("the request cannot be read")
    guid, _ = node_at(more, route)
    if guid != request["guid"]:
        raise PortUntouched("at the end of the route is now 0x%s" % guid)
    _, physical = state_of(more, route, port)
    if operation == "disable":
        if physical == "disabled":
            raise PortUntouched("it is disabled already, and not by this")
        behind, far = node_at(more, "%s,%d" % (route, port))
        if [behind, far] != request["peer"]:
            raise PortUntouched("its cable leads to 0x%s port %d now" % (behind, far))
    elif physical != "disabled":
        return {"ok": True, "message": "it is not disabled (%s)" % physical}
    text, why = asked(("ibportstate", *more, "-D", route, str(port), operation))
    return {"ok": None, "message": "" if "After PortInfo set" in text else why}


def main(nonce: str, asked_for: bytes, source: BinaryIO) -> None:
    """Does what is asked of it, and answers in one frame."""
    request = json.loads(asked_for)
    os.environ.update(PATH=request["environment"].pop("PATH", BIN), LC_ALL="C", **request["environment"])
    report: Any = {}
    try:
        for tool in TOOLS:
            if shutil.which(tool) is None:
                raise PortUntouched("%s is not installed there (infiniband-diags)" % tool)
        if DEVICE.fullmatch(request["device"]) is None:
            raise PortUntouched("the request cannot be read")
        more = ("-C", request["device"]) if request["device"] else ()
        if request["do"] == "who":
            guid, number = node_at(more, "0")
            report.update(ok=True, guid=guid, number=number)
        else:
            report.update(set_port(request, more))
    except PortUntouched as error:
        report.update(ok=False, message=str(error))
    except (OSError, ValueError, LookupError, TypeError) as error:
        report.update(ok=None, message="%s: %s" % (type(error).__name__, error))
    body = zlib.compress(json.dumps(report).encode())
    sys.stdout.write("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest()))
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
