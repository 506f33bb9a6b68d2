"""Runs the real collector in a virtual machine, over the shell on its serial port."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence

from healthcheck.collector import program, reply
from healthcheck.model.probes import MIB, Probe, ProbeSet
from healthcheck.model.recording import Recording
from inventory.transport.base import Reply
from inventory.transport.frame import Body, Framer
from tests.testbed.vm.machine import Machine

_LINE = 3000        # a shell's line on a terminal holds 4,095 bytes


def collected(up: Machine, probes: Sequence[Probe], seconds: float = 20.0) -> Recording:
    """What these probes read there. Its standard input stays open until it has answered, as over SSH."""
    built = program.build(ProbeSet(tuple(probes), seconds), nvml=False)
    text = base64.b64encode(built.payload).decode()
    up.run("rm -f /run/payload.txt /run/answered")
    for start in range(0, len(text), _LINE):
        up.run(f"echo {text[start:start + _LINE]} >> /run/payload.txt")
    up.run("base64 -d /run/payload.txt > /run/payload")
    started = (f"python3 -I -S -c {shlex.quote(built.loader)} {built.nonce} > /run/answer 2> /run/complaint; "
               f"touch /run/answered")
    up.run("{ cat /run/payload; while [ ! -e /run/answered ]; do sleep 0.1; done; } | { " + started + "; }",
           seconds + 60)
    framer = Framer(built.nonce, 64 * MIB)
    (body,) = [event.data for event in framer.feed(base64.b64decode(up.run("base64 /run/answer")))
               if isinstance(event, Body)]
    return reply.decode(Reply("node", body, None, 0.0, 1.0))
