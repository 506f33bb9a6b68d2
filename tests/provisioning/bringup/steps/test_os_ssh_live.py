"""Steps os and ssh over real SSH servers: what an installer shows is neither the system nor its host key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from healthcheck.cli.main import root
from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.transport.remote import RemoteTransport
from provisioning.bringup.engine.model import Executor, Machine, Observation, StepState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import BringupOutcome, RunContext, RunEvent
from provisioning.bringup.steps.os import OsInstalled
from provisioning.bringup.steps.osproof import OsProof
from provisioning.bringup.steps.ssh import Ssh
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.evidence import WantedSigns
from provisioning.osinstall.others import ByOthers
from provisioning.osinstall.sshsigns import SshSigns
from tests.provisioning.bringup.controllers import POLICY, Scripted
from tests.provisioning.bringup.proofs import Installer
from tests.provisioning.bringup.scripted import Plan
from tests.testbed.sshd import make_key, public
from tests.testbed.systems import INSTALLED, STARTING, STRANGER, SUBIQUITY, Place, System, place

PATIENT = {name: replace(POLICY.steps[name], seconds=60.0) for name in ("os", "ssh")}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with place(tmp_path / "machine") as made:
        yield made


def node(here: Place) -> Node:
    return here.node(lifecycle=Lifecycle(LifecycleState.BRINGUP))


def proof(backend: Installer | None = None) -> OsProof:
    look = SshSigns(RemoteTransport, WantedSigns()).state
    return OsProof(backend or ByOthers(look), look)


def executors(steps: tuple[str, ...] = ("os", "ssh"),
              backend: Installer | None = None) -> dict[str, Executor]:
    proven = proof(backend)
    made: dict[str, Executor] = {
        "os": OsInstalled(PATIENT["os"], Scripted(), POLICY, backend or ByOthers(proven), proven),
        "ssh": Ssh(PATIENT["ssh"], RemoteTransport, proof=proven)}
    return {name: made[name] for name in steps}


def brought(
    folder: Path, here: Place, on_event: Callable[[RunEvent], None] = lambda event: None, *,
    steps: tuple[str, ...] = ("os", "ssh"), backend: Installer | None = None,
) -> BringupOutcome:
    found = executors(steps, backend)
    return run(RunContext(folder, "a test"), [replace(node(here), bmc=None)], found,
               Plan({name: one.step for name, one in found.items()}), on_event)


def pinned(here: Place) -> list[str]:
    return [" ".join(line.split()[1:3])
            for line in here.known.read_text().splitlines()] if here.known.exists() else []


def step_ssh(here: Place, **kept: str) -> Observation:
    now = time.time()
    (_, found), = executors()["ssh"].observe([Machine(node(here), now - 1, now, kept)])
    return found


@pytest.mark.parametrize("installer", [SUBIQUITY, STRANGER, STARTING],
                         ids=["installer", "refuses", "starting"])
def test_an_installers_key_is_never_pinned_and_the_bring_up_ends_with_the_installed_systems(
    tmp_path: Path, here: Place, installer: System,
) -> None:
    here.start("installer", installer)
    seen: list[tuple[str, str]] = []

    def event(one: RunEvent) -> None:
        seen.append((one.step, one.stand))
        if one.stand in ("waiting", "unknown") and "system" not in here.started:
            assert pinned(here) == []
            here.start("system", INSTALLED, "ed25519", "ecdsa")

    assert brought(tmp_path / "state", here, event).done == ("n1",), seen
    assert seen[0][0] == "os"
    assert seen[0][1] in ("waiting", "unknown")
    assert sorted(pinned(here)) == sorted(public(key) for key in here.started["system"].host_keys.values())
    with opened(tmp_path / "state") as store:
        assert [(one.step, one.name.partition(",")[0])
                for one in bringups.actions(store)] == [("ssh", "pin the host key")]
        (row,) = bringups.progress(store)
    assert row.kept["os.image"] == "Ubuntu 24.04.1 LTS"


def test_a_server_that_changed_between_the_proof_and_the_pin_is_proven_anew(here: Place) -> None:
    here.start("system", INSTALLED)
    kept = ",".join(public(key) for key in here.started["system"].host_keys.values())
    here.start("installer", SUBIQUITY)
    found = step_ssh(here, **{"os.host_keys": kept})
    assert found.stand is StepState.WAIT
    assert "not proven to be the installed system" in found.message
    here.start("again", INSTALLED)
    found = step_ssh(here, **{"os.host_keys": kept})
    assert found.operation is not None
    assert found.keep["os.host_keys"] == public(here.started["again"].host_keys["ed25519"])


def test_only_the_keys_that_were_looked_at_are_pinned(here: Place) -> None:
    here.start("system", INSTALLED)
    found = step_ssh(here)
    assert found.operation is not None
    here.start("installer", SUBIQUITY)
    now = time.time()
    made = executors()["ssh"].make(Machine(node(here), now, now), found.operation)
    assert (made.done, made.message) == (False, "it shows other host keys than it did")
    assert pinned(here) == []


def test_without_step_os_a_key_is_pinned_from_a_connection_that_proves_the_system_all_the_same(
    tmp_path: Path, here: Place,
) -> None:
    here.start("installer", SUBIQUITY)

    def event(one: RunEvent) -> None:
        if one.stand in ("waiting", "unknown") and "system" not in here.started:
            assert pinned(here) == []
            here.start("system", INSTALLED)

    assert brought(tmp_path / "state", here, event, steps=("ssh",)).done == ("n1",)
    assert pinned(here) == [public(here.started["system"].host_keys["ed25519"])]


def test_a_key_that_was_pinned_from_an_installer_is_named_as_such_and_a_person_replaces_it(
    tmp_path: Path, here: Place, monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = here.start("installer", SUBIQUITY)
    here.known.write_text(old.known_hosts.read_text())      # as muster once did
    here.start("system", INSTALLED)
    assert brought(tmp_path / "state", here).trouble == ("n1",)
    assert pinned(here) == [public(old.host_keys["ed25519"])]
    with opened(tmp_path / "state") as store:
        (line,) = bringups.troubles(store)
    assert line.step == "ssh"
    assert "so the pinned one is an installer's, or of before it was installed" in line.what
    assert line.hand.endswith("muster inventory enroll n1 --replace n1; then: muster bringup retry n1")

    (tmp_path / "muster.yaml").write_text(
        f"version: 1\nnodes:\n  n1: {{address: 127.0.0.1, port: {here.port}, identity_file: {here.key}, "
        f"known_hosts_file: {here.known}}}\n")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(root, ["inventory", "enroll", "n1", "--replace", "n1", "--yes"])
    assert done.exit_code == 0, done.output
    with opened(tmp_path / "state") as store:
        bringups.retry(store, ["n1"], "somebody", time.time())
    assert brought(tmp_path / "state", here).done == ("n1",)
    assert pinned(here) == [public(here.started["system"].host_keys["ed25519"])]


def test_a_key_that_changed_after_all_is_a_persons_to_judge(tmp_path: Path, here: Place) -> None:
    server = here.start("system", INSTALLED)
    here.known.write_text(f"{server.known_name} {public(make_key(tmp_path / 'old'))}\n")
    found = step_ssh(here)
    assert (found.stand, found.operation) == (StepState.TROUBLE, None)
    assert found.troubles[0].hand.startswith(
        "if it was installed again: muster inventory enroll n1 --replace n1")


def test_a_pinned_key_that_matches_is_all_that_it_takes(tmp_path: Path, here: Place) -> None:
    here.known.write_text(here.start("system", INSTALLED).known_hosts.read_text())
    assert brought(tmp_path / "state", here).done == ("n1",)
    with opened(tmp_path / "state") as store:
        assert bringups.actions(store) == []


def test_only_the_host_keys_that_an_installer_gave_are_pinned_where_it_gave_some(tmp_path: Path,
                                                                                 here: Place) -> None:
    server = here.start("system", INSTALLED, "ed25519", "ecdsa")
    given = public(server.host_keys["ecdsa"])
    back = Installer(report=OsReport(OsState.INSTALLED, "is deployed", "jammy", (given,)))
    assert brought(tmp_path / "state", here, backend=back).done == ("n1",)
    assert pinned(here) == [given]


def test_where_the_machine_shows_none_of_the_keys_that_its_installer_gave_nothing_is_pinned(
        tmp_path: Path, here: Place) -> None:
    here.start("system", INSTALLED)
    other = public(make_key(tmp_path / "other"))
    back = Installer(report=OsReport(OsState.INSTALLED, "is deployed", "jammy", (other,)))
    now = time.time()
    executor = Ssh(PATIENT["ssh"], RemoteTransport, proof=proof(back))
    (_, found), = executor.observe([Machine(node(here), now, now, {"os.host_keys": other})])
    assert found.stand is StepState.WAIT
    assert "other host keys than came with the proof" in found.troubles[0].what
    assert "compare with its console" in found.troubles[0].hand
