"""The inventory's key `burnin`, of the site and of nodes, and each way to write it wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import InventoryError
from inventory.load import parse_with_origins
from inventory.model import BurnInSettings, Inventory, SiteBurnIn, StorageMount
from tests.command import muster


def read(top: str = "", defaults: str = "{}", entry: str = "{}") -> Inventory:
    text = f"version: 1\n{top}\ndefaults: {defaults}\nnodes:\n  gpu[1-2]: {{}}\n  gpu1: {entry}\n"
    return parse_with_origins(text, "/site/muster.yaml").inventory


@pytest.mark.parametrize(("text", "found"), [
    ("", SiteBurnIn()),
    ("burnin: {}", SiteBurnIn()),
    ("burnin: {max_kw: 400}", SiteBurnIn(400.0)),
    ("burnin: {max_kw: 400, domain_kw: 38.5, head: 10.1.0.1}", SiteBurnIn(400.0, 38.5, "10.1.0.1")),
    ("burnin: {nccl_tests: /opt/nccl-tests/build/}", SiteBurnIn(nccl_tests="/opt/nccl-tests/build")),
    ("burnin: {profile: roce, env: {NCCL_IB_TC: 106, NCCL_NET_PLUGIN: /opt/net/libnccl-net.so, NCCL_NET: "
     "''}}",
     SiteBurnIn(profile="roce", env={"NCCL_IB_TC": "106", "NCCL_NET_PLUGIN": "/opt/net/libnccl-net.so",
                                     "NCCL_NET": ""})),
    ("burnin: {setup_s: 300}", SiteBurnIn(setup_s=300.0)),
    ("burnin: {storage: [/scratch, {path: /lustre/x, bytes: 4GiB}, {path: /raid, bytes: 1048576}]}",
     SiteBurnIn(storage=(StorageMount("/scratch"), StorageMount("/lustre/x", 4 * 2**30),
                         StorageMount("/raid", 2**20)))),
    ("burnin: {storage: [{path: /home, folder: admin/burn in}]}",
     SiteBurnIn(storage=(StorageMount("/home", folder="admin/burn in"),))),
    ("burnin: {params: {copy.bytes: 1024, memory.share: 0.5, allreduce.dtype: bf16}}",
     SiteBurnIn(params={"copy.bytes": 1024, "memory.share": 0.5, "allreduce.dtype": "bf16"})),
])
def test_a_site_says_how_much_power_where_the_head_is_and_how_large_the_work(
    text: str, found: SiteBurnIn,
) -> None:
    assert read(text).burnin == found


def test_what_a_node_says_refines_what_holds_for_all_key_by_key() -> None:
    found = read(defaults="{burnin: {python: [docker, exec, -i, torch, python3], ranks: 8}}",
                 entry="{burnin: {ranks: 2, watts: 900}}")
    words = ("docker", "exec", "-i", "torch", "python3")
    assert (found.nodes["gpu1"].burnin == BurnInSettings(words, 2, 900.0)
            and found.nodes["gpu2"].burnin == BurnInSettings(words, 8))
    assert read(entry="{burnin: {python: /opt/torch/bin/python3}}").nodes["gpu1"].burnin.python == (
        "/opt/torch/bin/python3",)
    assert read().nodes["gpu1"].burnin == BurnInSettings()


@pytest.mark.parametrize(("top", "entry", "said"), [
    ("burnin: 400", "{}", "burnin is the number 400, expected a map with max_kw, domain_kw, head, params"),
    ("burnin: {kw: 4}", "{}", "unknown key 'kw' in burnin"),
    ("burnin: {max_kw: 0}", "{}",
     "burnin.max_kw is the number 0, expected a number of kilowatts above 0, such as 400"),
    ("burnin: {env: 3}", "{}", "burnin.env is the number 3, expected a map of NCCL settings"),
    ("burnin: {env: {NCCL_IB_TCC: 1}}", "{}",
     "burnin.env: 'NCCL_IB_TCC' is not an allowed variable"),
    ("burnin: {env: {LD_PRELOAD: /tmp/x.so}}", "{}",
     "burnin.env: 'LD_PRELOAD' is not an allowed variable"),
    ("burnin: {env: {NCCL_ALGO: RING}}", "{}", "burnin.env: 'NCCL_ALGO' is not an allowed variable"),
    ("burnin: {env: {NCCL_IB_TC: true}}", "{}",
     "burnin.env: NCCL_IB_TC is True, expected text of at most 1024"),
    ("burnin: {profile: [roce]}", "{}", "burnin.profile is a list, expected the name of a profile"),
    ("burnin: {setup_s: 0}", "{}",
     "burnin.setup_s is the number 0, expected a number of seconds above 0 and at most 86400"),
    ("burnin: {setup_s: .inf}", "{}", "burnin.setup_s is the number inf, expected a number of seconds"),
    ("burnin: {storage: /scratch}", "{}",
     "burnin.storage is '/scratch', expected a list of at most 16 mounts, such as [/scratch, {path:"),
    ("burnin: {storage: [scratch]}", "{}",
     "burnin.storage[0] is 'scratch', expected the full path of a mount, such as /scratch"),
    ("burnin: {storage: [/a, /b/../c]}", "{}", "burnin.storage[1] is '/b/../c', expected the full path"),
    ("burnin: {storage: [/a/]}", "{}", "burnin.storage[0] is '/a/', expected the full path"),
    ("burnin: {storage: [/a, {path: /a}]}", "{}", "burnin.storage[1]: /a is listed twice"),
    ("burnin: {storage: [{bytes: 1GiB}]}", "{}", "burnin.storage[0] is empty, expected the full path"),
    ("burnin: {storage: [{path: /a, folder: /b}]}", "{}",
     "burnin.storage[0].folder is '/b', expected a folder's path relative to its mount"),
    ("burnin: {storage: [{path: /a, folder: b/../../c}]}", "{}",
     "burnin.storage[0].folder is 'b/../../c', expected a folder's path"),
    ("burnin: {storage: [{path: /a, folder: ''}]}", "{}",
     "burnin.storage[0].folder is '', expected a folder's path"),
    ("burnin: {storage: [{path: /a, folder: 7}]}", "{}",
     "burnin.storage[0].folder is the number 7, expected a folder's path"),
    ("burnin: {storage: [{path: /a, byte: 1}]}", "{}",
     "unknown key 'byte' in burnin.storage[0]; did you mean bytes?"),
    ("burnin: {storage: [{path: /a, bytes: 4G}]}", "{}",
     "burnin.storage[0].bytes is '4G', expected a size from 1MiB to 1TiB, such as 4GiB"),
    ("burnin: {domain_kw: true}", "{}", "burnin.domain_kw is true, expected a number of kilowatts"),
    ("burnin: {head: 'a b'}", "{}", "burnin.head is 'a b', expected a host name or an IP address"),
    ("burnin: {nccl_tests: build}", "{}",
     "burnin.nccl_tests is 'build', expected the folder of all_reduce_perf on the nodes"),
    ("burnin: {params: 3}", "{}", "burnin.params is the number 3, expected a map"),
    ("burnin: {params: {bytes: 3}}", "{}",
     "burnin.params: 'bytes' is not a parameter, expected one such as allreduce.bytes"),
    ("burnin: {params: {copy.bytes: [1]}}", "{}",
     "burnin.params.copy.bytes is a list, expected a number or a word"),
    ("", "{burnin: 3}", "burnin is the number 3, expected a map with python, ranks, watts"),
    ("", "{burnin: {rank: 3}}", "unknown key 'rank' in burnin of a node; did you mean ranks?"),
    ("", "{burnin: {ranks: 0}}",
     "burnin.ranks is the number 0, expected a number of processes from 1 to 1024"),
    ("", "{burnin: {watts: -1}}", "burnin.watts is the number -1, expected the most watts"),
    ("", "{burnin: {python: []}}", "burnin.python is a list, expected a program and its words"),
    ("", "{burnin: {python: [-c]}}", "burnin.python is a list, expected a program and its words"),
    ("", "{burnin: {python: [a, {}]}}", "burnin.python is a map, expected a program and its words"),
])
def test_what_is_wrong_is_named_with_its_place(top: str, entry: str, said: str) -> None:
    with pytest.raises(InventoryError) as caught:
        read(top, entry=entry)
    assert said in str(caught.value) and str(caught.value).startswith("/site/muster.yaml:")


_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
                       | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                           st.text(max_size=8), inner, max_size=3), max_leaves=6)


@given(st.dictionaries(st.sampled_from(["max_kw", "domain_kw", "head", "params", "nccl_tests", "storage",
                                        "python", "ranks", "watts"]), _VALUES, max_size=4))
def test_whatever_stands_there_is_read_or_refused_in_one_line(found: dict[str, object]) -> None:
    for top, entry in ((f"burnin: {json.dumps(found)}", "{}"), ("", json.dumps({"burnin": found}))):
        try:
            read(top, entry=entry)
        except InventoryError as error:
            assert len(str(error).splitlines()) == 1


def test_show_tells_what_a_node_says_and_which_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(
        "version: 1\nnodes:\n  gpu1: {burnin: {python: [/opt/torch/bin/python3], ranks: 2}}\n")
    done = muster("inventory", "show", "gpu1", home=tmp_path)
    assert ("  burnin.python  /opt/torch/bin/python3  muster.yaml:3:19\n" in done.stdout
            and "burnin.ranks" in done.stdout), done
    assert "burnin.watts" not in done.stdout
