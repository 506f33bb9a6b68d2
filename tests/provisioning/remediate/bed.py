"""For tests of remediation: a site's own scheduler, rules that see services, nodes' units."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from healthcheck.store.file import opened
from healthcheck.store.ledger import LedgerEntry, lines
from tests.testbed.marks import muster
from tests.testbed.nspawn import Machine
from tests.testbed.planted import executable

# Keeps who holds which node, and which are busy, in a file beside it.
SCHEDULER = """#!{python}
import json, pathlib, sys
file = pathlib.Path({path!r})
held = json.loads(file.read_text()) if file.exists() else {{}}
asked = json.load(sys.stdin)
for node in asked["nodes"]:
    held.setdefault(node, {{"holder": "nobody", "reason": "", "busy": False}})
    if asked["action"] == "isolate":
        held[node].update(holder="us", reason=asked["reason"])
    if asked["action"] == "release":
        held[node].update(holder="nobody", reason="")
file.write_text(json.dumps(held))
nodes = {{name: held[name] for name in asked["nodes"]}}
more = {{"nodes": nodes}} if asked["action"] == "held" else {{"done": True}}
print(json.dumps({{"schema": "muster.action/1", **more}}))
"""
RULES = """
- id: units-run
  check: service.expected
  with: {names: [nvidia-fabricmanager, nvidia-persistenced, docker]}
  severity: warning
  unsupported: skip
  effect: passive
  remedy: start it
  source: systemctl(1)
  proven: documented
- id: other-runs
  check: service.expected
  with: {names: [other]}
  severity: warning
  unsupported: skip
  effect: passive
  remedy: start it
  source: systemctl(1)
  proven: documented
"""
POLICY = """
faults:
- {id: units, why: it is to run, rules: [units-run], isolation: none}
remediation:
  settle_seconds: 6
  back_minutes: 0.5
  restart-fabric-manager: {faults: [units], rules: [units-run], enabled: true}
  restart-persistenced: {faults: [units], rules: [units-run], enabled: true}
  restart-docker: {faults: [units], rules: [units-run], enabled: true}
  reboot: {faults: [units], rules: [units-run], enabled: false}
"""
FAKE = {"nvidia-fabricmanager": "", "nvidia-persistenced": "", "docker": "", "other": ""}
_RACKS = {"n1": "r1", "n2": "r1", "n3": "r2"}


def site(home: Path, machines: list[Machine]) -> None:
    """The inventory of these nodes, the scheduler, and the rules."""
    program = executable(
        home / "scheduler", SCHEDULER.format(python=sys.executable, path=str(home / "held.json")))
    (home / "rules").mkdir()
    (home / "rules" / "units.yaml").write_text(RULES)
    (home / "rules" / "policy.yaml").write_text(POLICY)
    one = machines[0]
    (home / "muster.yaml").write_text(
        "version: 1\n"
        f"cordon: {{command: [{program}]}}\n"
        f"defaults: {{user: root, sku: cpu-only, identity_file: {one.key}, known_hosts_file: "
        f"{one.known_hosts}}}\n"
        "nodes:\n"
        + "".join(f"  {each.name}: {{address: 127.0.0.1, port: {each.port}, rack: {_RACKS[each.name]}}}\n"
                  for each in machines))


def unit(
    machine: Machine, name: str, more: str = "", start: str = "/bin/sleep infinity", *, run: bool = True,
) -> None:
    """A service of this name, running or stopped."""
    (machine.root / f"etc/systemd/system/{name}.service").write_text(
        f"[Service]\nExecStart={start}\n{more}\n[Install]\nWantedBy=multi-user.target\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "reset-failed", f"{name}.service", check=False)
    machine.run("systemctl", *(("restart",) if run else ("stop",)), f"{name}.service", check=False)


def well(machine: Machine) -> None:
    """All units are there, and run."""
    for name in FAKE:
        unit(machine, name)


def check(home: Path, code: int = 1) -> None:
    """One sweep into the store."""
    done = muster("check", "--store", "--rules", "rules", home=home, timeout=120)
    assert done.returncode in (code, 3), done.stdout + done.stderr


def remediate(home: Path, *words: str, code: int = 0) -> str:
    done = muster("remediate", *words, "--rules", "rules", home=home, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def ledger(home: Path, *actions: str) -> list[LedgerEntry]:
    """The lines of these operations, or of all steps."""
    with opened(home / "state") as store:
        return [line for line in lines(store)
                if line.action in (actions or ("restart-service", "reset-gpu", "reboot"))]


def held(home: Path) -> dict[str, str]:
    """By node the reason with which the scheduler holds it."""
    found: dict[str, Any] = json.loads((home / "held.json").read_text())
    return {name: one["reason"] for name, one in found.items() if one["holder"] != "nobody"}


def busy(home: Path, node: str, *, yes: bool = True) -> None:
    """A job runs there, or has ended."""
    path = home / "held.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    found.setdefault(node, {"holder": "nobody", "reason": ""})["busy"] = yes
    path.write_text(json.dumps(found))


def active(machine: Machine, name: str) -> bool:
    """Whether the service runs there."""
    return machine.run("systemctl", "is-active", f"{name}.service", check=False).strip() == "active"


def invocation(machine: Machine, name: str) -> str:
    """Which of its starts this is."""
    return machine.run("systemctl", "show", "--property=InvocationID", "--value", f"{name}.service").strip()

