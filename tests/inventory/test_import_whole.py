"""From Slurm and Ansible to the nodes that are swept: import, write, load, and have the same nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from inventory.importers import ansible, slurm
from inventory.importers.base import Imported
from inventory.load import load_inventory
from inventory.merge import new_file
from inventory.model import Node, Privilege
from inventory.nodeset import expand, fold
from tests.tries import tries

SLOW_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
                        deadline=None, max_examples=tries(30))
NAME = st.builds("{}{}".format, st.sampled_from(["gpu", "n", "rack1-gpu", "login"]),
                 st.integers(0, 120).map("{:03d}".format)) \
    | st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z]", fullmatch=True)
GRES = st.sampled_from(["gpu:h100:8", "gpu:8(S:0-1)", "(null)"])
FEATURES = st.lists(st.sampled_from(["h100", "ib", "nvme"]), unique=True, max_size=3)
PARTITIONS = st.lists(st.sampled_from(["train", "debug", "all-nodes"]), unique=True, max_size=3)
SLURM = st.dictionaries(NAME,
                        st.fixed_dictionaries({"gres": GRES, "features": FEATURES, "partitions": PARTITIONS,
                                               "host": st.booleans()}), min_size=1, max_size=12)
USER = st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True)
ANSIBLE = st.dictionaries(NAME, st.fixed_dictionaries({}, optional={
    "ansible_port": st.integers(1, 65535), "ansible_user": USER, "ansible_become": st.just(True),
    "ansible_python_interpreter": st.just("/usr/bin/python3.11"),
}), min_size=1, max_size=12)


def loaded(imported: Imported, folder: Path) -> tuple[dict[str, Node], dict[str, tuple[str, ...]]]:
    path = folder / "muster.yaml"
    path.write_text(new_file(imported, str(path)).text)
    found = load_inventory(path)
    return dict(found.nodes), dict(found.groups)


def address(at: int) -> str:
    return f"10.0.{at // 250}.{at % 250 + 1}"


def as_scontrol(nodes: dict[str, dict[str, Any]], *, one_line: bool) -> bytes:
    between, text = (" ", "") if one_line else ("\n   ", "")
    for at, (name, node) in enumerate(nodes.items()):
        features = ",".join(node["features"]) or "(null)"
        fields = [f"NodeName={name} Arch=x86_64", f"AvailableFeatures={features}",
                  f"ActiveFeatures={features}", f"Gres={node['gres']}",
                  f"NodeAddr={name if node['host'] else address(at)} NodeHostName={name} Version=22.05.8",
                  "State=IDLE ThreadsPerCore=1"]
        fields += [f"Partitions={','.join(node['partitions'])}"] if node["partitions"] else []
        text += between.join(fields) + ("\n" if one_line else "\n\n")
    return text.encode()


def as_json(nodes: dict[str, dict[str, Any]], *, state: Any) -> bytes:
    return json.dumps({"nodes": [{
        "name": name, "hostname": name, "address": name if node["host"] else address(at),
        "architecture": "x86_64", "state": state, "gres": "" if node["gres"] == "(null)" else node["gres"],
        "features": ",".join(node["features"]) if isinstance(state, str) else node["features"],
        "active_features": ",".join(node["features"]), "partitions": node["partitions"],
    } for at, (name, node) in enumerate(nodes.items())]}).encode()


def of_slurm(nodes: dict[str, dict[str, Any]]) -> dict[str, Node]:
    """The nodes that are meant, worked out without an importer."""
    found = {}
    for at, (name, node) in enumerate(nodes.items()):
        # where a GPU is bound is the slurmd's word of the day
        labels = {} if node["gres"] == "(null)" else {"gres": node["gres"].partition("(")[0]}
        labels |= {"features": ",".join(node["features"])} if node["features"] else {}
        found[name] = Node(name, address=None if node["host"] else address(at),
                           labels=MappingProxyType(labels))
    return found


@pytest.mark.parametrize("form", ["text", "one line", "json", "newer json"])
@SLOW_FIXTURE
@given(nodes=SLURM)
def test_any_slurm_cluster_becomes_a_file_of_exactly_its_nodes_and_partitions(
    tmp_path: Path, form: str, nodes: dict[str, dict[str, Any]],
) -> None:
    data = {"text": lambda: as_scontrol(nodes, one_line=False),
            "one line": lambda: as_scontrol(nodes, one_line=True),
            "json": lambda: as_json(nodes, state="idle"),
            "newer json": lambda: as_json(nodes, state=["IDLE"])}[form]()
    found, groups = loaded(slurm.parse(data, "nodes.txt"), tmp_path)
    assert found == of_slurm(nodes)
    members = {partition: {name for name, node in nodes.items() if partition in node["partitions"]}
               for node in nodes.values() for partition in node["partitions"]}
    assert {name: set(held) for name, held in groups.items()} == members


@pytest.mark.parametrize("form", ["ini", "yaml"])
@SLOW_FIXTURE
@given(nodes=ANSIBLE, user=st.none() | USER)
def test_any_ansible_inventory_becomes_a_file_of_exactly_its_hosts_and_groups(
    tmp_path: Path, form: str, nodes: dict[str, dict[str, Any]], user: str | None,
) -> None:
    assume("train" not in nodes and "all" not in nodes and "ungrouped" not in nodes)
    shared = {"ansible_user": user} if user is not None else {}
    hosts = {name: {"ansible_host": address(at), **variables}
             for at, (name, variables) in enumerate(nodes.items())}
    if form == "ini":
        path = tmp_path / "hosts.ini"
        lines = ["[train]", *(" ".join([name, *(f"{key}={value}" for key, value in host.items())])
                              for name, host in hosts.items())]
        lines += ["[train:vars]", *(f"{key}={value}" for key, value in shared.items())] if shared else []
        path.write_text("\n".join(lines) + "\n")
    else:
        path = tmp_path / "hosts.yml"
        path.write_text(yaml.safe_dump({"train": {"hosts": hosts, "vars": shared}}, sort_keys=False))
    found, groups = loaded(ansible.load(path), tmp_path)
    meant = {name: Node(name, address=host["ansible_host"], port=host.get("ansible_port"),
                        user=host.get("ansible_user", user)) for name, host in hosts.items()}
    for name, host in hosts.items():
        if "ansible_become" in host:
            meant[name] = replace(meant[name], privilege=Privilege.BECOME)
        if "ansible_python_interpreter" in host:
            meant[name] = replace(meant[name], python=host["ansible_python_interpreter"])
    assert found == meant
    assert set(groups["train"]) == set(nodes)


@given(st.lists(NAME, min_size=1, max_size=40, unique=True))
def test_folding_and_unfolding_a_set_gives_the_same_nodes(names: list[str]) -> None:
    assert set(expand(fold(names))) == set(names)
    assert fold(expand(fold(names))) == fold(names)
