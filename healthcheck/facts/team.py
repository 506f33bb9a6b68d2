"""Teams of Ethernet interfaces (teamd), as bonds: `teamdctl TEAM state dump`, by libteam's own JSON
(teamd/teamd_state.c, teamd_runner_lacp.c, teamd_link_watch.c)."""

from __future__ import annotations

import json
from typing import Any

from healthcheck.facts.base import Captures
from healthcheck.facts.bond import NO_PARTNER, Bond, Slave
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.model.probes import Probe, ProbeKind
from inventory.text import clean

# teamd keeps a socket there for each team that it runs; `{stem}` is the name of the team. It answers root
# alone; not marked so, since the interfaces and bonds of nodes without teams are any user's to read.
TEAMD = Probe(
    "netdev.teamd", ProbeKind.COMMAND, argv=("teamdctl", "{stem}", "state", "dump"),
    each=("/run/teamd/*.sock",), most=8, each_s=2.0, seconds=6.0,
)
_LACP = "lacp"
# Of the LACP runner's states of a port, those without a partner that answers.
_UNANSWERED = ("expired", "defaulted")


def read_teams(captures: Captures) -> list[tuple[str, Bond | Unmeasured]]:
    """Every team by name, with what was read of it; none where teamd runs none. Raises Unread where they
    could not be listed, or there is no teamdctl to ask of one that runs."""
    return [(name, _team(name, answer)) for path, answer in sorted(captures.devices(TEAMD).items())
            if (name := path.rpartition("/")[2].removesuffix(".sock"))]


def _team(name: str, answer: DeviceOutput | Unmeasured) -> Bond | Unmeasured:
    if isinstance(answer, Unmeasured):
        return answer
    if answer.exit:
        why = clean(answer.complaint, 150)
        return Unmeasured(f"teamdctl {name} state dump ended with exit status {answer.exit}: {why}")
    try:
        return parse_team(name, answer.text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Unmeasured(f"the answer of teamdctl {name} state dump is not in the known format")


def parse_team(name: str, text: str) -> Bond:
    """One team; raises ValueError, KeyError, TypeError or AttributeError for another format."""
    state = json.loads(text)
    runner = _of_type(str, state["setup"]["runner_name"])
    # A team without ports has no such entry.
    ports = {interface: (port, _of_type(bool, port["link_watches"]["up"]))
             for interface, port in sorted(state.get("ports", {}).items())}
    slaves, partner, active = [], NO_PARTNER, ""
    for interface, (port, up) in ports.items():
        aggregator, churn = "", tuple[str, ...]()
        if runner == _LACP:
            held = port["runner"]
            aggregator = str(_of_type(int, held["aggregator"]["id"]))
            churn = ("churned",) if held["state"] in _UNANSWERED else ()
            if up and _of_type(bool, held["aggregator"]["selected"]):
                active, partner = aggregator, _of_type(str, held["partner_lacpdu_info"]["system"])
        slaves.append(Slave(interface, up, aggregator, churn))
    lacp = runner == _LACP
    agreed: tuple[Any, Any] = (partner, active) if lacp else (UNSUPPORTED, UNSUPPORTED)
    return Bond(name, f"team, {runner}", any(slave.up for slave in slaves), lacp, *agreed, tuple(slaves))


def _of_type(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(value)
    return value
