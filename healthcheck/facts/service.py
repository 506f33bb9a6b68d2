"""Facts of NVIDIA's services, from one `systemctl show` of the units as NVIDIA's packages name them
(systemctl(1))."""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.values import Fact, Unmeasured, Unread
from healthcheck.model.probes import Needs, Probe, ProbeKind
from healthcheck.model.recording import Outcome

UNITS = {
    "fabric_manager": "nvidia-fabricmanager.service", "persistenced": "nvidia-persistenced.service",
    "imex": "nvidia-imex.service",
    "dcgm": "nvidia-dcgm.service",
}
SHOW = Probe(
    "service.nvidia", ProbeKind.COMMAND, seconds=5.0, needs=Needs.NVIDIA, argv=(
        "systemctl", "show", "--no-pager",
        "--property=Id,LoadState,ActiveState,SubState,NRestarts,ActiveEnterTimestampMonotonic",
        "--", *UNITS.values(),
    ),
)


class Service(Fact):
    """One unit in systemd's words. `load` is not-found where it is not installed; `since_s` is in seconds
    since boot."""

    name: str
    load: str
    active: str
    sub: str
    restarts: int
    since_s: float

    @property
    def description(self) -> str:
        """The state, for people."""
        return "not installed" if self.load == "not-found" else f"{self.active} ({self.sub})"


class Services(Fact):
    """NVIDIA's services; one that systemd did not show is Unmeasured by itself."""

    name: str
    fabric_manager: Service
    persistenced: Service
    imex: Service
    dcgm: Service


_FIELD = re.compile(r"^(\w{1,40})=(.*)$", re.MULTILINE)
_WORD, _WHOLE = re.compile(r"[a-z][a-z-]{0,39}"), re.compile(r"[0-9]{1,20}")


def blocks(text: str) -> dict[str, dict[str, str]]:
    """systemctl's blocks of NAME=value lines, by unit id."""
    found = {}
    for block in text.split("\n\n"):
        fields: dict[str, str] = dict(_FIELD.findall(block))
        if "Id" in fields:
            found[fields["Id"]] = fields
    return found


def _word(fields: dict[str, str], key: str) -> Any:
    value = fields.get(key, "")
    return value if _WORD.fullmatch(value) else Unmeasured(f"systemctl shows no {key}")


def _number(fields: dict[str, str], key: str) -> Any:
    value = fields.get(key, "")
    # [not set], and an older systemd without the property, do not mean zero.
    return int(value) if _WHOLE.fullmatch(value) else Unmeasured(f"systemctl shows no {key}")


def _service(unit: str, found: dict[str, dict[str, str]]) -> Any:
    fields = found.get(unit)
    if fields is None:
        return Unmeasured(f"systemctl shows no {unit}")
    since = _number(fields, "ActiveEnterTimestampMonotonic")
    return Service(
        name=unit.removesuffix(".service"), load=_word(fields, "LoadState"),
        active=_word(fields, "ActiveState"),
        sub=_word(fields, "SubState"), restarts=_number(fields, "NRestarts"),
        since_s=since / 1e6 if isinstance(since, int) else since,
    )


@fact("services", SHOW)
def services(captures: Captures) -> Services:
    """The four services; none is measured without systemd or an NVIDIA device."""
    try:
        found = blocks(captures.text(SHOW))
    except Unread as error:
        capture = captures.capture(SHOW)
        reason = str(error)
        if capture is not None and capture.outcome is Outcome.MISSING and not capture.note:
            reason = "the node has no systemctl: something else manages its services"
        elif capture is not None and "not been booted with systemd" in capture.stderr:
            reason = "the node was not booted with systemd: something else manages its services"
        return Services.absent("services", Unmeasured(reason))
    return Services("services", **{name: _service(unit, found) for name, unit in UNITS.items()})
