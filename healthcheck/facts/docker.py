"""The Docker fact: whether the daemon answers, from `docker info`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, Fact, Unmeasured, Unread, fact, why
from healthcheck.probes import MIB, Kind, Probe
from healthcheck.recording import Outcome

INFO = Probe("docker.info", Kind.COMMAND, argv=("docker", "info", "--format", "{{json .}}"), seconds=10.0, limit=1 * MIB, root=True)


@dataclass(frozen=True)
class Docker(Fact):
    """The Docker daemon. `answers` is False, with the client's word in `trouble`, when it was reached for in vain."""

    name: str
    answers: bool
    trouble: str
    version: str
    storage_driver: str
    cgroup_driver: str


def _denied(text: str) -> bool:
    return "permission denied" in text.lower()


@fact("docker", INFO)
def docker(captures: Captures) -> Docker:
    """What the client says of the daemon. A client that may not reach the socket has measured nothing."""
    capture = captures.capture(INFO)
    if capture is None or capture.outcome is not Outcome.DONE:
        raise Unread(why(INFO, capture))
    info = _info(capture.text)
    # Clients before 23 exit with 0 and put the failure into ServerErrors; later ones exit with 1 and print it.
    listed = info.get("ServerErrors") or []
    errors = [str(error) for error in listed] if isinstance(listed, list) else [str(listed)]
    if capture.exit != 0 and not errors:
        errors = [line for line in capture.stderr.splitlines() if line.strip()][-1:]
        if not errors:
            raise Unread(why(INFO, capture))
    if any(_denied(error) for error in errors) or (capture.exit != 0 and _denied(capture.stderr)):
        raise Unread("docker: permission denied on the daemon's socket (needs root or the docker group)")
    if errors:
        gone = Unmeasured("the Docker daemon does not answer")
        return _docker(False, errors[0].removeprefix("ERROR: ")[:300], gone, gone, gone)
    version = _word(info, "ServerVersion")
    if isinstance(version, Unmeasured):
        raise Unread("docker info names no server version, so no daemon is known to have answered")
    return _docker(True, "", version, _word(info, "Driver"), _word(info, "CgroupDriver"))


def _docker(answers: bool, trouble: str, version: Any, storage: Any, cgroup: Any) -> Docker:
    return Docker("docker", answers, trouble, version=version, storage_driver=storage, cgroup_driver=cgroup)


def _info(text: str) -> dict[str, Any]:
    """The JSON object of the last line that holds one; clients print warnings before it."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                return {}
            return value if isinstance(value, dict) else {}
    return {}


def _word(info: dict[str, Any], key: str) -> Any:
    value = info.get(key)
    return value if isinstance(value, str) and value else Unmeasured(f"docker info has no {key}")
