"""`muster init` as a newcomer types it, against real sshd: from nothing to the name of the fault, and on
after whatever ends it."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store.file import NAME, opened
from healthcheck.store.history import newest_spells
from inventory.load import load_inventory
from tests.command import MUSTER, environment, muster
from tests.testbed.newcomer import (
    Machines,
    lost_gpus,
    machines,
    other_memory,
    plain,
    read_only_root,
    with_gpus,
)
from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, wait_until

NAMES = ("web1", "web2", "web3")
SICK = "web3"
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Two machines on which nothing is wrong, and one with a fault."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    with machines(tmp_path_factory.mktemp("machines"),
                  {**dict.fromkeys(NAMES, plain), SICK: read_only_root}) as running:
        yield running


class Home:
    """A newcomer's home folder, with an ssh_config and nothing of muster's."""

    def __init__(self, folder: Path, fleet: Machines, more: str = "") -> None:
        self.folder = folder
        self.file = folder / "muster.yaml"
        self.pins = folder / ".ssh" / "muster_known_hosts"
        (folder / ".ssh").mkdir(mode=0o700)
        (folder / ".ssh" / "config").write_text(fleet.config + more)

    def init(self, *words: str) -> Done:
        return muster("init", *words, home=self.folder)

    def answered(self, answers: str, *words: str) -> tuple[int, str]:
        """The command at a terminal where someone types `answers`; its exit code and all that it said."""
        ours, theirs = pty.openpty()
        try:
            os.write(ours, answers.encode())
            done = subprocess.run([str(MUSTER), "init", *words], cwd=self.folder,
                                  env=environment(self.folder), stdin=theirs,
                                  stderr=theirs, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
            os.set_blocking(ours, False)
            said = b""
            with contextlib.suppress(BlockingIOError):      # a terminal gives 4 KiB at a time
                while True:
                    said += os.read(ours, 65536)
        finally:
            os.close(ours)
            os.close(theirs)
        return done.returncode, f"{said.decode()}{done.stdout}"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(MUSTER), "init", *words], cwd=self.folder, env=environment(self.folder),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def skus(self) -> dict[str, str | None]:
        return {node.name: node.sku for node in load_inventory(self.file)}

    def states(self) -> dict[str, str]:
        with opened(self.folder / "state") as store:
            return {name: spell.state for name, spell in newest_spells(store).items()}


@pytest.fixture
def home(tmp_path: Path, fleet: Machines) -> Home:
    return Home(tmp_path, fleet)


def test_one_command_goes_from_nothing_to_the_name_of_the_fault_and_the_next_says_what_is_there(
    home: Home,
) -> None:
    done = home.init("web[1-3]", "--accept-keys", "--accept-skus")
    assert done.returncode == 1, done.stderr
    assert f"CRITICAL  filesystem-read-only\n    {SICK}  /: read-only" in done.stdout
    assert home.skus() == dict.fromkeys(NAMES, "cpu-only")
    assert home.states() == {name: "unhealthy" if name == SICK else "healthy" for name in NAMES}
    assert "muster triage  " in done.stdout and "muster burnin" not in done.stdout
    assert f"who does what about {SICK}" in done.stdout
    before = home.file.read_bytes(), home.pins.read_bytes()
    done = home.init()
    assert done.returncode == 0, done.stderr
    assert ("muster.yaml is there, with 3 nodes, web[1-3]" in done.stdout
            and "Sweep: done before" in done.stdout)
    assert "unhealthy        1  web3" in done.stdout and "muster check --store" in done.stdout
    assert (home.file.read_bytes(), home.pins.read_bytes()) == before


def test_a_person_answers_the_questions_and_muster_does_what_was_answered(home: Home) -> None:
    code, said = home.answered("ssh\nweb[1-2]\nyes\ny\n")
    assert code == 0, said
    assert "the hosts of ~/.ssh/config: 3" in said and said.count("SHA256:") >= 2
    assert home.skus() == {"web1": "cpu-only", "web2": "cpu-only"}


def test_a_no_pins_no_key_and_gives_no_sku(home: Home) -> None:
    code, said = home.answered("no\n", "web1")
    assert code == 3 and "declined" in said and not home.pins.exists()
    assert "Sweep: not yet" in said


def test_without_a_terminal_nothing_is_asked_and_no_key_is_trusted_unseen(home: Home) -> None:
    done = home.init("web1")
    assert done.returncode == 2 and not home.pins.exists()
    assert "--expect PATH to check them, or --accept-keys" in done.stderr
    assert home.skus() == {"web1": None}


def test_without_a_terminal_and_without_nodes_it_names_the_options(home: Home) -> None:
    done = home.init()
    assert done.returncode == 2 and "--from-ssh-config" in done.stderr and not home.file.exists()


def test_other_nodes_than_those_of_the_file_are_refused_and_the_file_stays(home: Home) -> None:
    home.file.write_text("version: 1\nnodes:\n  web1: {rack: r7}\n")
    done = home.init("web[1-2]", "--accept-keys")
    assert (done.returncode == 2 and "muster.yaml does not have web2" in done.stderr
            and "--anew" in done.stderr)
    assert "rack: r7" in home.file.read_text()


def test_anew_writes_the_file_anew_and_keeps_the_old_one(home: Home) -> None:
    home.file.write_text("version: 1\nnodes:\n  web1: {rack: r7}\n")
    home.init("web2", "--anew")
    assert "web2" in home.file.read_text() and "r7" in (home.folder / "muster.yaml.old").read_text()


def test_a_machine_that_is_not_reached_is_named_with_its_cause_and_the_others_go_on(tmp_path: Path,
                                                                                    fleet: Machines) -> None:
    home = Home(tmp_path, fleet, f"Host gone1\n HostName 127.0.0.1\n Port {free_port()}\n")
    done = home.init("web1,gone1", "--accept-keys", "--accept-skus")
    assert done.returncode == 3, done.stderr
    assert "gone1: connect: " in done.stdout and "once gone1 can be reached" in done.stdout
    assert home.skus() == {"gone1": None, "web1": "cpu-only"} and home.states()["web1"] == "healthy"


POINTS: dict[str, Callable[[Home], bool]] = {
    "the inventory": lambda home: home.file.exists(),
    "the pins": lambda home: home.pins.exists(),
    "a snapshot": lambda home: any((home.folder / "state").rglob("web1*")),
    "the SKU": lambda home: home.file.exists() and "cpu-only" in home.file.read_text(),
    "the store": lambda home: (home.folder / "state" / NAME).exists(),
}


# Before a machine is reached, and once all is known.
FAST = {("the pins", signal.SIGINT), ("the store", signal.SIGKILL)}


def ends() -> Iterator[Any]:
    """Each point with both ends; most of them in the slow tier."""
    for point, end in product(POINTS, (signal.SIGKILL, signal.SIGINT)):
        yield pytest.param(point, end, marks=[] if (point, end) in FAST else [pytest.mark.slow])


@pytest.mark.parametrize(("point", "end"), list(ends()))
def test_an_end_at_any_point_leaves_nothing_half_written_and_the_next_run_goes_on(
        home: Home, point: str, end: signal.Signals) -> None:
    words = ("web[1-2]", "--accept-keys", "--accept-skus")
    process = home.start(*words)
    wait_until(lambda: POINTS[point](home), what=point)
    process.send_signal(end)
    process.wait(30)
    assert set(home.skus()) == {"web1", "web2"}
    done = home.init(*words)
    assert done.returncode == 0, done.stderr
    assert home.skus() == {"web1": "cpu-only", "web2": "cpu-only"}
    assert home.states() == {"web1": "healthy", "web2": "healthy"}


def test_a_list_and_an_ssh_config_name_the_nodes_alike(tmp_path: Path, fleet: Machines) -> None:
    home = Home(tmp_path,
                fleet,
                "Host jump\n HostName jump.invalid\nHost far1\n ProxyJump jump\nHost github.com\n User git\n"
                "Host *\n Port 22\n")
    (home.folder / "nodes.txt").write_text("# ours\nweb[1-2] web3\n\nfar1   # behind a jump host\n")
    done = home.init("--from-file", "nodes.txt", "-o", "a.yaml")
    assert set(load_inventory(home.folder / "a.yaml").nodes) == {"web1", "web2", "web3", "far1"}, done.stderr
    done = home.init("--from-ssh-config", "web*", "-o", "b.yaml")
    assert set(load_inventory(home.folder / "b.yaml").nodes) == set(NAMES), done.stderr
    assert "github.com: left out, as its user is git" in done.stdout
    assert "jump: left out, as others are reached through it" in done.stdout


def test_a_bad_line_of_a_list_is_one_line_with_its_place(home: Home) -> None:
    (home.folder / "nodes.txt").write_text("web1\nweb[1-\n")
    done = home.init("--from-file", "nodes.txt")
    assert (done.returncode == 2 and done.stderr.startswith("muster: nodes.txt:2:1: ")
            and done.stderr.count("\n") == 1)
    assert not home.file.exists()


def test_machines_are_sorted_by_what_they_show_and_lost_gpus_make_no_plain_machine(tmp_path: Path) -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    with machines(tmp_path / "machines",
                  {"gpu1": with_gpus, "gpu2": with_gpus, "gpu3": lost_gpus, "login1": plain}) as fleet:
        home = Home(tmp_path, fleet)
        done = home.init("--from-ssh-config", "--accept-keys", "--accept-skus")
    assert done.returncode == 1, done.stderr
    assert home.skus() == {"gpu1": "dgx-h100", "gpu2": "dgx-h100", "gpu3": "dgx-h100", "login1": "cpu-only"}
    assert "CRITICAL  gpu-count\n    gpu3  GPUs on PCI: 0, expected 8" in done.stdout
    assert home.states()["login1"] == "healthy" and home.states()["gpu3"] == "unhealthy"
    assert "muster burnin plan 'gpu[1-3]'" in done.stdout


def test_nodes_of_slurm_are_kept_from_jobs_by_slurm(home: Home) -> None:
    tools = home.folder / "bin"
    tools.mkdir()
    (tools
     / "scontrol").write_text(
         "#!/bin/sh\necho 'NodeName=web1 State=IDLE Partitions=train'\necho\necho 'NodeName=web2 "
         "State=IDLE'\n")
    (tools / "scontrol").chmod(0o755)
    done = muster("init", "--from-slurm", "@train", home=home.folder, PATH=f"{tools}:{os.environ['PATH']}")
    assert "cordon: slurm" in done.stdout, done.stderr
    found = load_inventory(home.file)
    assert set(found.nodes) == {"web1"} and found.cordon is not None and found.groups["train"] == ("web1",)


def test_a_kind_that_no_sku_fits_gets_one_of_its_own_in_the_folder_of_rules(tmp_path: Path) -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    (tmp_path / "site").mkdir()
    with machines(tmp_path / "machines", {"gpu1": other_memory, "gpu2": other_memory}) as fleet:
        home = Home(tmp_path, fleet)
        refused = home.init("gpu[1-2]", "--accept-keys", "--rules", "site")
        assert home.skus() == {"gpu1": None, "gpu2": None} and list((tmp_path / "site").iterdir()) == []
        assert "memory_gib: 1008, there 2048" in refused.stdout, refused.stdout + refused.stderr
        done = home.init("--accept-skus", "--rules", "site")
    assert [path.name
            for path in (tmp_path / "site" / "sku").iterdir()] == ["dgx-h100-site.yaml"], done.stderr
    assert "sku: dgx-h100-site" in home.file.read_text()
