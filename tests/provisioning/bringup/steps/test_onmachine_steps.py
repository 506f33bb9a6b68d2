"""The steps ssh, base and agent on two nodes with a real systemd and a real sshd."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Owner
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.hostkeys import fingerprint
from inventory.load import load_inventory
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.transport.remote import RemoteTransport
from provisioning.agent.layout import BASE as BASE_FOLDER
from provisioning.agent.layout import NODE
from provisioning.base import send
from provisioning.base.desired import BaseSettings
from provisioning.base.onnode.item import HEADER
from provisioning.base.report import BaseReport, ItemState
from provisioning.bringup.engine.model import (
    Executor,
    Machine,
    Observation,
    Operation,
    PastOperation,
    StepEffect,
    StepState,
)
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext, RunEvent
from provisioning.bringup.policy.load import load
from provisioning.bringup.steps.agent import AgentStep
from provisioning.bringup.steps.base import Base
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.service import ServiceStep
from provisioning.bringup.steps.ssh import Ssh
from provisioning.osinstall.evidence import MarkerFile, WantedSigns
from provisioning.osinstall.sshsigns import SshSigns
from tests.command import muster
from tests.testbed.nspawn import Machine as Container
from tests.testbed.nspawn import nodes, require_nspawn
from tests.testbed.ports import free_port
from tests.testbed.sshd import make_key, public

pytestmark = pytest.mark.timeout(600)      # the first test makes the root file system, if there is none yet
LIMITS, SYSTEM = "etc/security/limits.d/muster.conf", "etc/systemd/system.conf.d/90-muster.conf"
SYSCTL = "etc/sysctl.d/90-muster.conf"
STEPS = load([packaged()]).steps
# The root file system of a container is an overlay, as a stateless system's.
PROOF = SshSigns(RemoteTransport, WantedSigns(MarkerFile("/etc/site-image"))).state
CHRONY = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Container]]:
    require_nspawn()
    with nodes(tmp_path_factory.mktemp("nspawn"), "n1", "n2") as started:
        for one in started:
            (one.root / "etc/site-image").write_text("site\n")
        yield {one.name: one for one in started}


@pytest.fixture
def n1(machines: dict[str, Container]) -> Container:
    return machines["n1"]


@pytest.fixture
def n2(machines: dict[str, Container]) -> Container:
    return machines["n2"]


@pytest.fixture
def home(tmp_path: Path, machines: dict[str, Container]) -> Path:
    return inventory(tmp_path, machines)


def inventory(folder: Path, machines: dict[str, Container]) -> Path:
    any_ = machines["n1"]
    (folder / "muster.yaml").write_text(
        f"version: 1\ndefaults: {{user: root, sku: cpu-only, lifecycle: bringup, identity_file: {any_.key}, "
        f"known_hosts_file: {any_.known_hosts}}}\nnodes:\n"
        + "".join(one.entry() for one in machines.values()))
    return folder


@pytest.fixture(scope="module")
def ruleset() -> Ruleset:
    return load_ruleset([packaged()])


def node(machine: Container, name: str | None = None, known_hosts: Path | None = None) -> Node:
    return Node(name or machine.name, "127.0.0.1", machine.port, "root", identity_file=(str(machine.key),),
                known_hosts_file=(str(known_hosts or machine.known_hosts),), sku="cpu-only")


def machine(of: Node, *operations: PastOperation, **kept: str) -> Machine:
    return Machine(of, time.time() - 1, time.time(), kept, operations)


def observe(executor: Executor, *of: Node | Machine) -> dict[str, Observation]:
    found = [one if isinstance(one, Machine) else machine(one) for one in of]
    return dict(executor.observe(found))


def made(executor: Executor, of: Node, seen: Observation) -> PastOperation:
    """Does what the look asked for."""
    assert seen.stand is StepState.NOT_SO, seen
    assert seen.operation is not None
    began = time.time()
    done = executor.make(machine(of), seen.operation)
    return PastOperation(seen.operation.key, seen.operation.name, began, time.time(), done.done, done.message)


def configured(home: Path, *words: str, code: int = 0) -> str:
    return muster("bringup", "base", *words, home=home, timeout=120, code=code).stdout


def ask(of: Container, desired: BaseSettings, *, make: bool = False) -> dict[str, tuple[ItemState, str]]:
    (on_event,) = (send.make if make else send.look)([node(of)], RemoteTransport(), desired)
    return items(on_event)


def items(on_event: BaseReport) -> dict[str, tuple[ItemState, str]]:
    assert on_event.answered, on_event.message
    return {item.name: (item.how, item.message) for item in on_event.items}


def test_a_fresh_node_shows_its_diff_is_made_so_and_then_nothing_is_left_to_do(
    n1: Container, home: Path,
) -> None:
    n1.run("hostnamectl", "set-hostname", "debian")
    shown = configured(home, "n1", code=1)
    for line in ("  host_name    /etc/hostname\n               - debian\n               + n1\n",
                 "  memlock      /etc/security/limits.d/muster.conf (new)\n"
                 "               + * - memlock unlimited\n", "+ DefaultLimitMEMLOCK=infinity",
                 "  time         does not apply: a container (systemd-nspawn) has its host's clock",
                 "  persistence  does not apply: no NVIDIA GPU here",
                 "Nothing changed. Run again with --apply to do this."):
        assert line in shown
    assert not (n1.root / LIMITS).exists()
    assert "n1: applied: host_name, memlock" in configured(home, "n1", "--apply")
    assert (n1.run("hostname").strip(), (n1.root / "etc/hostname").read_text()) == ("n1", "n1\n")
    assert (n1.root / SYSTEM).read_text() == HEADER + "[Manager]\nDefaultLimitMEMLOCK=infinity\n"
    # What systemd starts from now on is to have no limit, without a restart of the machine.
    assert n1.run("systemctl", "show", "--property=LimitMEMLOCK", "--value", "ssh") == "infinity\n"
    before = {path: (n1.root / path).stat().st_mtime_ns for path in (LIMITS, SYSTEM)}
    assert configured(home, "n1").startswith("n1: nothing to do\n")
    (on_event,) = json.loads(configured(home, "n1", "--apply", "--json"))["nodes"]
    assert (on_event["done"], on_event["changed"]) == (True, [])
    assert {path: (n1.root / path).stat().st_mtime_ns for path in (LIMITS, SYSTEM)} == before


def test_nodes_that_do_not_answer_are_reported_of_beside_the_others(n1: Container, home: Path) -> None:
    text = (home / "muster.yaml").read_text()
    (home / "muster.yaml").write_text(f"{text}  n9: {{address: 127.0.0.1, port: {free_port()}}}\n")
    configured(home, "n1", "--apply")
    assert "n9: not seen: connect: " in configured(home, "n1,n9", code=3)


def test_a_time_service_is_enabled_and_started_and_two_of_them_are_trouble(n2: Container) -> None:
    desired = BaseSettings(synchronised=False, host_name=False, memlock=False)
    n2.run("mv", "/run/systemd/container", "/run/systemd/away")      # from here on it is a machine of its own
    try:
        assert "no time service is installed" in ask(n2, desired)["time"][1]
        for name in ("chrony", "ntp"):
            (n2.root / f"etc/systemd/system/{name}.service").write_text(CHRONY)
        n2.run("systemctl", "daemon-reload")
        assert ask(n2, desired)["time"][0] is ItemState.DIFFERS
        assert ask(n2, desired, make=True)["time"] == (ItemState.SO, "chrony.service")
        assert n2.run("systemctl", "is-enabled", "chrony").strip() == "enabled"
        # Whether the clock is set is the kernel's word, which no one is given in here: not seen is not so.
        assert (ask(n2, replace(desired, synchronised=True))["time"]
                == (ItemState.UNSEEN, "adjtimex: Operation not permitted"))
        n2.run("systemctl", "start", "ntp")
        assert ask(n2, desired)["time"] == (
            ItemState.TROUBLE,
            "chrony.service and ntp.service both set the clock: systemctl disable --now one of them")
        now = n2.run("cat", "/proc/sys/kernel/pid_max").strip()
        assert (ask(n2, replace(desired, time=False, sysctl={"kernel.pid_max": now}), make=True)["sysctl"][0]
                is ItemState.SO)
        assert (n2.root / SYSCTL).read_text() == HEADER + f"kernel.pid_max = {now}\n"
        # The kernel is its host's after all, and may not be written to.
        (on_event,) = send.make(
            [node(n2)], RemoteTransport(), replace(desired, time=False, sysctl={"kernel.pid_max": "4000"}))
        assert "Read-only file system" in on_event.failed["sysctl"]
    finally:
        n2.run("systemctl", "disable", "--now", "chrony", "ntp")
        for path in ("etc/systemd/system/chrony.service", "etc/systemd/system/ntp.service", SYSCTL):
            (n2.root / path).unlink(missing_ok=True)
        n2.run("mv", "/run/systemd/away", "/run/systemd/container")


def test_step_base_names_the_diff_as_its_action_and_is_so_after_it(n1: Container) -> None:
    executor = Base(STEPS["base"], RemoteTransport, BaseSettings())
    n1.run("hostnamectl", "set-hostname", "debian")
    seen = observe(executor, node(n1))["n1"]
    assert seen.operation is not None
    # what goes by the old name would be disturbed
    assert seen.operation.effect is StepEffect.DISRUPTIVE
    assert (seen.operation.change == ("host_name: /etc/hostname", "host_name: - debian", "host_name: + n1",
                                      "host_name: the kernel's", "host_name: - debian", "host_name: + n1"))
    past = made(executor, node(n1), seen)
    assert (past.done, past.message) == (True, "applied: host_name")
    assert observe(executor, node(n1))["n1"].stand is StepState.SO
    # Something else there undoes it.
    n1.run("hostnamectl", "set-hostname", "debian")
    seen = observe(executor, machine(node(n1), past))["n1"]
    assert (seen.stand, seen.troubles[0].owner) == (StepState.TROUBLE, Owner.OPERATOR)
    assert "does not stay" in seen.message
    n1.run("hostnamectl", "set-hostname", "n1")


def test_step_ssh_pins_at_first_contact_with_the_installed_system_and_never_takes_a_changed_key(
    n1: Container, n2: Container, tmp_path: Path,
) -> None:
    known = tmp_path / "known_hosts"
    executor = Ssh(STEPS["ssh"], RemoteTransport, proof=PROOF)
    both = [node(n1, known_hosts=known), node(n2, known_hosts=known)]
    (n2.root / "etc/site-image").unlink()
    assert "no /etc/site-image" in observe(executor, both[1])["n2"].message
    assert not known.exists()
    (n2.root / "etc/site-image").write_text("site\n")
    for one, seen in zip(both, observe(executor, *both).values(), strict=True):
        assert seen.operation is not None
        assert (seen.operation.name
                == "pin the host key, came with the proof of the installed system: only the network "
                   "vouches for it")
        assert made(executor, one, seen).done
    found = observe(executor, *both)
    assert [seen.stand for seen in found.values()] == [StepState.SO, StepState.SO], found
    assert found["n1"].message == "n1 answers, a container (systemd-nspawn) shows its host's"
    assert found["n1"].keep["os.machine"] == (n1.root / "etc/machine-id").read_text().strip()

    other = public(make_key(tmp_path / "other"))
    known.write_text(f"[127.0.0.1]:{n1.port} {other}\n")
    seen = observe(executor, both[0])["n1"]
    assert (seen.stand, seen.operation) == (StepState.TROUBLE, None)
    assert "muster inventory enroll n1 --replace n1" in seen.troubles[0].hand
    assert known.read_text() == f"[127.0.0.1]:{n1.port} {other}\n"


def test_step_ssh_compares_with_a_list_where_one_is_given(n1: Container, tmp_path: Path) -> None:
    def keys(name: str) -> str:
        return fingerprint(
            base64.b64decode((n1.root / f"etc/ssh/ssh_host_{name}_key.pub").read_text().split()[1]))

    listed, known = tmp_path / "keys.txt", tmp_path / "known_hosts"
    executor, here = Ssh(STEPS["ssh"], RemoteTransport, listed, proof=PROOF), node(n1, known_hosts=known)
    listed.write_text("n1 SHA256:" + "A" * 43 + "\n")
    assert observe(executor, here)["n1"].stand is StepState.TROUBLE
    listed.write_text("n7 SHA256:" + "A" * 43 + "\n")
    assert "does not list" in observe(executor, here)["n1"].message
    listed.write_text("".join(f"n1 {keys(name)}\n" for name in ("ed25519", "rsa", "ecdsa")))
    seen = observe(executor, here)["n1"]
    assert seen.operation is not None
    assert seen.operation.name == "pin the host key, as the list says"
    # Between the look and the operation someone else took the address.
    listed.write_text("n1 SHA256:" + "A" * 43 + "\n")
    assert made(executor, here, seen).done is False
    assert not known.exists()


def test_step_ssh_sees_two_addresses_of_one_machine_a_clone_and_a_swap(n1: Container, n2: Container) -> None:
    executor = Ssh(STEPS["ssh"], RemoteTransport, proof=PROOF, names=["n1", "n2", "n3"])
    found = observe(executor, node(n1), node(n1, "n3"))
    assert found["n1"].stand is StepState.SO            # it calls itself n1
    assert found["n3"].troubles[0].what == "the addresses of n[1,3] reach the same machine (host name n1)"
    assert found["n3"].troubles[0].owner is Owner.OPERATOR

    found = observe(executor, node(n1, "n2"), node(n2, "n1"))
    assert {(seen.stand, seen.troubles[0].owner, seen.troubles[0].part) for seen in found.values()} == {
        (StepState.TROUBLE, Owner.DATACENTRE, "cable")}

    own = (n2.root / "etc/machine-id").read_text()
    (n2.root / "etc/machine-id").write_text((n1.root / "etc/machine-id").read_text())
    found = observe(Ssh(STEPS["ssh"], RemoteTransport, proof=PROOF), node(n1), node(n2))
    (n2.root / "etc/machine-id").write_text(own)
    assert all("/etc/machine-id" in seen.troubles[0].what for seen in found.values())


def test_step_ssh_holds_a_machine_against_those_that_came_before_it(n1: Container) -> None:
    first = observe(Ssh(STEPS["ssh"], RemoteTransport, proof=PROOF), node(n1))["n1"]
    seen = observe(
        Ssh(STEPS["ssh"], RemoteTransport, proof=PROOF, others=lambda: {"n1": first.keep}),
        node(n1, "n5"))["n5"]
    assert "the addresses of n[1,5] reach the same machine" in seen.message
    assert set(seen.keep.values()) == {""}


def test_step_ssh_waits_for_who_does_not_listen_and_asks_a_person_for_the_rest(
    n1: Container, tmp_path: Path,
) -> None:
    executor = Ssh(STEPS["ssh"], RemoteTransport, proof=PROOF)
    nobody = replace(node(n1), name="n8", port=free_port())
    assert observe(executor, nobody)["n8"].stand is StepState.WAIT
    stranger = replace(node(n1), identity_file=(str(make_key(tmp_path / "key")),))
    assert observe(executor, stranger)["n1"].stand is StepState.WAIT      # cloud-init may put the key in yet
    late = replace(machine(stranger), began=time.time() - 600)
    assert "authorized_keys" in observe(executor, late)["n1"].troubles[0].hand
    lost = replace(node(n1), python="python3.99")
    assert "python3" in observe(executor, lost)["n1"].troubles[0].hand


@pytest.fixture(scope="module")
def ran(
    machines: dict[str, Container], ruleset: Ruleset, tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, BringupOutcome, list[RunEvent]]:
    """The state, the outcome and the events of a run over two fresh nodes and one that is n1 again."""
    n1, n2 = machines["n1"], machines["n2"]
    home = inventory(tmp_path_factory.mktemp("ran"), machines)
    known = home / "known_hosts"
    here = [replace(node(of, name, known), lifecycle=Lifecycle(LifecycleState.BRINGUP))
            for of, name in ((n1, "n1"), (n2, "n2"), (n1, "n3"))]
    configured(home, "n1,n2", "--apply")
    n2.run("hostnamectl", "set-hostname", "localhost")
    steps = {name: STEPS[name] for name in ("ssh", "base", "agent")}
    executors: dict[str, Executor] = {
        "ssh": Ssh(steps["ssh"], RemoteTransport, proof=PROOF, names=["n1", "n2", "n3"]),
        "base": Base(steps["base"], RemoteTransport, BaseSettings()),
        "agent": AgentStep(steps["agent"], RemoteTransport, ruleset, period=10)}
    (home / "state").mkdir()
    events: list[RunEvent] = []
    outcome = run(RunContext(home / "state", "a test"), here, executors,
                  replace(load([packaged()]), steps=steps), events.append)
    n1.run("systemctl", "stop", "muster-agent.timer")
    return home / "state", outcome, events


def test_a_run_takes_two_fresh_nodes_through_ssh_base_and_agent_and_tells_the_third_that_it_is_one_of_them(
    ran: tuple[Path, BringupOutcome, list[RunEvent]], n2: Container,
) -> None:
    state, outcome, events = ran
    assert (outcome.done, outcome.trouble) == (("n1", "n2"), ("n3",)), events
    operations = {
        (one.node, one.operation.name.partition(",")[0]) for one in events
        if one.operation is not None and one.stand == "operation"}
    assert operations >= {
        ("n2", "pin the host key"), ("n2", "apply: host_name"), ("n1", "install the agent"),
        ("n2", "install the agent")}
    assert {name for _, name in operations} == {"pin the host key", "apply: host_name", "install the agent"}
    assert n2.run("hostname") == "n2\n"
    with opened(state) as store:
        assert [(one.node, one.step, one.owner) for one in bringups.troubles(store)] == [
            ("n3", "ssh", Owner.OPERATOR.value)]


@pytest.mark.usefixtures("ran")
def test_who_comes_into_service_is_so_for_its_agent_too(n2: Container, home: Path, ruleset: Ruleset) -> None:
    """What the agent says of its node is counted in alerts only when its node is in service."""
    of = StepContext(home / "state", home / "muster.yaml", load_inventory(home / "muster.yaml"), ruleset,
                     (packaged(),), RemoteTransport, "a test")
    agent = AgentStep(STEPS["agent"], RemoteTransport, ruleset, period=10)
    here = of.inventory.nodes["n2"]
    seen = observe(agent, here)["n2"]
    assert seen.stand is StepState.SO, seen
    service, there = ServiceStep(STEPS["service"], of, agent), machine(here, agent=seen.keep["agent"])
    assert "bringup" in n2.run("cat", f"{BASE_FOLDER}/current/{NODE}")
    assert {one.done for one in service.make_together([there]).values()} == {True}
    assert load_inventory(of.path).nodes["n2"].in_service
    assert "bringup" not in n2.run("cat", f"{BASE_FOLDER}/current/{NODE}")
    assert observe(service, there)["n2"].stand is StepState.SO
    # One that was cut short before the agent was told is seen.
    assert agent.make(machine(here), Operation("", "", (), StepEffect.PASSIVE)).done
    behind = observe(service, there)["n2"]
    assert behind.operation is not None and behind.operation.change == ("its agent: in service",)


@pytest.mark.usefixtures("ran")
def test_step_agent_wants_this_version_a_timer_that_runs_and_a_look(n2: Container, ruleset: Ruleset) -> None:
    executor = AgentStep(STEPS["agent"], RemoteTransport, ruleset, period=10)
    here = replace(node(n2), lifecycle=Lifecycle(LifecycleState.BRINGUP))
    assert observe(executor, here)["n2"].stand in (StepState.WAIT, StepState.SO)
    # Other rules, or another period: another version is wanted.
    seen = observe(AgentStep(STEPS["agent"], RemoteTransport, ruleset, period=20), here)["n2"]
    assert seen.operation is not None
    assert seen.operation.change[0].startswith("- ")
    # A timer that no one starts is no agent.
    n2.run("systemctl", "stop", "muster-agent.timer")
    assert observe(executor, here)["n2"].stand is StepState.NOT_SO
    n2.run("systemctl", "start", "muster-agent.timer")
    n2.run("systemctl", "mask", "--runtime", "muster-agent.service")
    n2.run("systemctl", "stop", "muster-agent.service")     # a look that was under way leaves no result
    n2.run("rm", "/var/lib/muster/agent/result.json")
    assert observe(executor, here)["n2"].stand is StepState.WAIT
    stuck = observe(executor, replace(machine(here), began=time.time() - 30))["n2"]
    assert stuck.stand is StepState.TROUBLE
    assert "has made no check" in stuck.message
