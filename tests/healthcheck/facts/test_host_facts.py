"""Facts of a node's host that a table of cases cannot hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.cache import FactCache
from healthcheck.facts.service import Service
from healthcheck.facts.system import parameters
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine


def built(name: str, cache: FactCache | None = None, **changes: Capture) -> Any:
    return build_fact(FACTS[name], Captures(machine.recording(**changes), cache))


def test_memory_in_use_makes_no_other_parts_of_what_edac_counts() -> None:
    cache = FactCache()
    held = machine.captures()["memory.edac"].files
    other = {**held, "/proc/meminfo": FileCapture(Outcome.DONE, "MemTotal: 1 kB\n")}
    assert built("memory_parts", cache) is built("memory_parts", cache,
                                                 memory_edac=Capture(Outcome.DONE, files=other))


def test_without_a_default_size_a_number_of_pages_asks_for_none() -> None:
    asked = built("boot_huge_pages", host_system=machine.done(**{"/proc/cmdline": "ro hugepages=5"}),
                  host_memory=machine.done(**{"/proc/meminfo": "MemTotal: 2000 kB\n"})).asked
    assert asked == {}


def test_of_a_long_lineage_the_nearest_are_reported() -> None:
    rows = [[pid, pid + 1, 1000, 1, 0, 0, 0] for pid in range(1, 80)]
    document = {"processes": rows, "names": ["sh"], "cgroups": [""], "more": 0, "own": [],
                "uptime": "9.5 1.0",
                "hidden": False, "strange": False}
    found = built("process_owners", process_owners=Capture(Outcome.DONE, text=json.dumps(document)))
    assert [len(one.lineage) for one in found.users[:20]] == [64] * 15 + [63, 62, 61, 60, 59]


@pytest.mark.parametrize(("load", "words"), [("not-found", "not installed"), ("loaded", "active (running)")])
def test_a_service_is_described_by_its_state_where_it_is_installed(load: str, words: str) -> None:
    assert Service("nvidia-dcgm", load, "active", "running", 0, 1.0).description == words


@pytest.mark.parametrize(("word", "shown"), [
    ("coreos.inst.token=Zq8.x", "coreos.inst.token=(hidden)"),
    ("k3s.token=K10::server:a", "k3s.token=(hidden)"),
    ("systemd.setenv=WANDB_API_KEY=Zq8", "systemd.setenv=WANDB_API_KEY=(hidden)"),
    ("systemd.set_credential=passwd.hashed-password.root:Zq8", "systemd.set_credential=(hidden)"),
    ('rootpw="Zq8 and more"', "rootpw=(hidden)"), ('"rootpw=Zq8 and more"', '"rootpw=(hidden)'),
    ("rootpw=Zq8", "rootpw=(hidden)"), ("grub.pass=Zq8", "grub.pass=(hidden)"),
    ("inst.ks=https://kick:Zq8@10.0.0.1/ks.cfg", "inst.ks=https://(hidden)@10.0.0.1/ks.cfg"),
    ("ds=nocloud-net;s=http://10.0.0.1/seed?token=Zq8&x=1",
     "ds=nocloud-net;s=http://10.0.0.1/seed?token=(hidden)"),
    ("iommu.passthrough=1", "iommu.passthrough=1"), ("amd_iommu=pt", "amd_iommu=pt"),
    ("net.ifnames=0", "net.ifnames=0"), ("nvme_core.multipath=Y", "nvme_core.multipath=Y"),
])
def test_a_secret_on_the_kernels_command_line_is_in_no_fact(word: str, shown: str) -> None:
    assert parameters(f"ro {word} quiet") == ("ro", shown, "quiet")
