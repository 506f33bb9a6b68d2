"""Which back end a command uses: its own words, then the inventory's, then Slurm."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from inventory.errors import UsageError
from inventory.model import CordonBy, InKubernetes, Inventory, IsolationBackend
from provisioning.actions.base import SupportsReboot
from provisioning.actions.choose import Options, backend
from provisioning.actions.command import CommandBackend
from provisioning.actions.golden import GoldenSet
from provisioning.actions.hostfile import HostFile
from provisioning.actions.kubernetes import Kubernetes
from provisioning.actions.slurm import SlurmBackend
from tests.testbed.marks import muster, plain


def site(cordon: CordonBy | None) -> Inventory:
    return Inventory(MappingProxyType({}), MappingProxyType({}), "muster.yaml", cordon)


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scontrol").write_text("")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_inventory_chooses_and_the_command_line_chooses_first(scontrol: None) -> None:
    assert (isinstance(backend(None), SlurmBackend) and isinstance(backend(site(None)), SlurmBackend)
            and isinstance(backend(site(CordonBy(IsolationBackend.SLURM))), SlurmBackend))
    hostfile = backend(site(CordonBy(IsolationBackend.HOSTFILE, "/a")))
    assert isinstance(hostfile, HostFile) and hostfile.path == Path("/a")
    golden = backend(site(CordonBy(IsolationBackend.GOLDEN, "/a")))
    assert isinstance(golden, GoldenSet) and golden.path == Path("/a")
    command = backend(site(CordonBy(IsolationBackend.COMMAND, argv=("act", "x"), seconds=3)))
    assert isinstance(command, CommandBackend) and (command.argv, command.seconds) == (("act", "x"), 3)
    assert isinstance(
        backend(site(CordonBy(IsolationBackend.KUBERNETES, kubernetes=InKubernetes()))), Kubernetes)
    chosen = backend(site(CordonBy(IsolationBackend.SLURM)), Options(golden="/b"))
    assert isinstance(chosen, GoldenSet) and chosen.path == Path("/b")
    assert isinstance(
        backend(site(CordonBy(IsolationBackend.GOLDEN, "/a")), Options(hostfile="/b")), HostFile)


def test_slurm_and_a_command_can_reboot_and_files_cannot(scontrol: None) -> None:
    able = {one.name: isinstance(one, SupportsReboot)
            for one in (SlurmBackend(), CommandBackend(["act"]), HostFile(Path("a")), GoldenSet(Path("a")))}
    assert able == {"slurm": True, "command": True, "hostfile": False, "golden": False}


def test_what_cannot_be_chosen_is_reported_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UsageError,
        match="scontrol was not found: run this where Slurm's commands are, set `cordon:` in the inventory"):
        backend(site(CordonBy(IsolationBackend.SLURM)))
    with pytest.raises(UsageError, match="--hostfile and --golden exclude each other"):
        backend(None, Options("a", "b"))


def test_the_command_keeps_what_the_inventory_says(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {golden: good}\nnodes:\n  gpu[1-3]:\n")
    (tmp_path / "good").write_text("gpu[1-3]\n")
    done = muster("cordon", "gpu2", "--reason", "fan", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "gpu2: cordoned in golden as muster#1\n"), done.stderr
    assert plain((tmp_path / "good").read_text()) == "gpu[1,3]\n# muster#1: fan  gpu2 of gpu[1-3]\n"
    done = muster("cordon", "gpu2", "--reason", "fan", "--hostfile", "bad", home=tmp_path)
    assert done.stdout == "gpu2: cordoned in hostfile as muster#2\n"
    done = muster("uncordon", "gpu2", home=tmp_path)
    assert done.returncode == 1 and done.stdout == (
        f"gpu2: muster#1 is released; hostfile holds it as muster#2, too: muster uncordon gpu2 --hostfile "
        f"{tmp_path}/bad\n")
    assert (tmp_path / "good").read_text() == "gpu[1-3]\n"


def test_a_command_of_the_site_that_fails_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {command: [./act]}\nnodes: {gpu1: }\n")
    done = muster("cordon", "gpu1", "--reason", "fan", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr == (
        f"muster: {tmp_path}/act: cannot be run: No such file or directory; see the key cordon of the "
        "inventory\n")
