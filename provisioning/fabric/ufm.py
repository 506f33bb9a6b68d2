"""Sets ports through UFM: the subnet manager is asked to leave a link out, and what it lists is read back.

`PUT /app/unhealthy_ports` with `ports`, `ports_policy` ("UNHEALTHY", "HEALTHY") and `action` ("isolate") is
answered with 200, or 400 for a bad request; `GET /app/unhealthy_ports` lists what is marked, with the
condition MANUAL (UFM Enterprise REST API guide, "Unhealthy Ports REST API"; NVIDIA's own plugins isolate
ports that way: Mellanox/ufm_sdk_3.0, plugins/pdr_deterministic_plugin). The cable stays lit. Where UFM
answers 202 with a job, as its actions do ("Jobs REST API"), the job is followed to its end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from healthcheck.subnet.model import Subnet
from healthcheck.sweep import ufmoutput
from healthcheck.sweep.ufmrest import UfmRest
from healthcheck.sweep.ufmwire import UfmAnswer, UfmError
from inventory.text import clean
from provisioning.fabric.route import PortAnswer, PortTarget

_UNHEALTHY = "/app/unhealthy_ports"
_JOB = re.compile(r"/jobs/(\d{1,12}(?:\.\d{1,6})?)/?")
_GOING_ON = ("running", "pending", "scheduled", "waiting", "created")
_JOB_AGAIN_S = 2.0


@dataclass(frozen=True)
class UfmPorts:
    """A `PortRoute` through the UFM of each subnet, by the subnet's name as `ufmoutput.ask` has it. A job is
    followed for `job_s` at most."""

    ufms: Mapping[str, UfmRest]
    job_s: float = 60.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    @classmethod
    def of(cls, *ufms: UfmRest) -> UfmPorts:
        """The route through these."""
        return cls({ufmoutput.name_of(one) if len(ufms) > 1 else "": one for one in ufms})

    @property
    def name(self) -> str:
        """See `PortRoute.name`."""
        return f"UFM at {', '.join(map(str, self.ufms.values()))}"

    def look(self) -> tuple[Subnet, ...]:
        """See `PortRoute.look`. Raises UfmError where a UFM does not say all of what is there."""
        return tuple(_seen(ufm, name) for name, ufm in self.ufms.items())

    def set(self, target: PortTarget, *, enable: bool, seen: Subnet) -> PortAnswer:
        """See `PortRoute.set`."""
        ufm = self.ufms.get(target.plane)
        if ufm is None:
            return PortAnswer(False, "its subnet's UFM was not named")
        try:
            now = _seen(ufm, target.plane)
        except UfmError as error:
            return PortAnswer(False, str(error))
        if enable and not now.isolated(target.end):
            return PortAnswer(True, "it is not isolated")
        if not enable and (why := _changed(now, target)):
            return PortAnswer(False, why)
        wanted: dict[str, object] = {"ports": [f"{target.end.guid}_{target.end.number}"]}
        wanted |= {"ports_policy": "HEALTHY"} if enable else {"ports_policy": "UNHEALTHY",
                                                              "action": "isolate"}
        try:
            answer = ufm.put(_UNHEALTHY, wanted, ufm.deadline())
        except UfmError as error:
            return PortAnswer(None if error.unsure else False, str(error))
        return self._answered(ufm, answer)

    def _answered(self, ufm: UfmRest, answer: UfmAnswer) -> PortAnswer:
        if answer.status == 202:
            return PortAnswer(None, self._job(ufm, answer.location))
        if 200 <= answer.status < 300:
            return PortAnswer(None, "")
        # Of what it refuses nothing was done; an error of its own may come after the change.
        return PortAnswer(None if answer.status >= 500 else False, str(ufm.refusal(_UNHEALTHY, answer)))

    def _job(self, ufm: UfmRest, location: str) -> str:
        """How the job ended, in words; "" where it is complete."""
        found = _JOB.search(location)
        if found is None:
            return f"{ufm}: it goes on in a job that it does not name"
        number = found[1]
        deadline = replace(ufm, seconds=self.job_s).deadline()
        status = "no status"
        while True:
            try:
                status, summary = _status(ufm.document(f"/jobs/{number}", deadline))
                if status.lower() not in _GOING_ON:
                    break
                if deadline.left() < _JOB_AGAIN_S:
                    raise TimeoutError
            except UfmError as error:
                return f"job {number} of UFM, last seen: {status}: {error}"
            except TimeoutError:
                return f"job {number} of UFM has not ended within {self.job_s:g} s: {status}"
            self.sleep(_JOB_AGAIN_S)
        return "" if status.lower() == "completed" else f"job {number} of UFM: {status}{summary}"


def _seen(ufm: UfmRest, name: str) -> Subnet:
    (output,) = ufmoutput.ask([ufm])
    if output.missing:
        raise UfmError("; ".join(output.missing))
    return replace(output, name=name).subnet()


def _changed(now: Subnet, target: PortTarget) -> str:
    """Why the port is not to be touched as it is now; "" where it may be."""
    port = now.port(target.end)
    if port is None:
        return "UFM does not show it now"
    if now.isolated(target.end) or port.physical == "disabled":
        return "it is disabled already, and not by this"
    if port.peer is None:
        return "UFM does not show where its cable leads now"
    if port.peer != target.peer:
        return f"its cable leads to 0x{port.peer.guid} port {port.peer.number} now"
    return ""


def _status(document: object) -> tuple[str, str]:
    """A job's status, and what it says beside that."""
    job = document[0] if isinstance(document, list) and document else document
    if not isinstance(job, dict) or not isinstance(job.get("Status"), str):
        return "no status", ""
    summary = job.get("Summary")
    said = f": {clean(summary, 200)}" if isinstance(summary, str) and summary else ""
    return clean(job["Status"], 60), said
