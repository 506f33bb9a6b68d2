"""The inventory file: what it means, and the one line for everything that is wrong in it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.entry import host, pci_address
from inventory.errors import ConfigError, InventoryError, Mark
from inventory.load import load_inventory, load_with_origins
from inventory.model import (
    Bmc,
    Inventory,
    Lifecycle,
    LifecycleState,
    Node,
    PortPlan,
    Privilege,
    Secret,
    SecretFrom,
    Speaks,
)
from tests.tries import tries

EXAMPLE = """\
version: 1
defaults: {user: muster, port: 22, identity_file: ~/.ssh/id_ed25519, sku: hgx-h100}
groups: {train: "gpu[001-512]", spares: "gpu[513-520]"}
nodes:
  gpu[001-032]: {rack: r01, leaf: [leaf01, leaf02], power: pdu-a, labels: {zone: a}}
  gpu[033-520]: {rack: r02, leaf: [leaf03]}
  gpu007: {address: 10.1.0.7, bmc: {address: 10.2.0.7}, lifecycle: {state: rma, owner: vendor, until: 2026-12-01}}
"""  # noqa: E501

Load = Callable[..., Inventory]
Refused = Callable[..., str]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads text as the file `m.yaml` of the working folder."""
    monkeypatch.chdir(tmp_path)

    def of(text: str | bytes, **options: Any) -> Inventory:
        Path("m.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_inventory("m.yaml", **options)

    return of


@pytest.fixture
def refused(load: Load) -> Refused:
    """The one line for which the text is refused, its mark checked against the line's beginning."""
    def of(text: str | bytes, **options: Any) -> str:
        with pytest.raises(InventoryError) as caught:
            load(text, **options)
        line = str(caught.value)
        assert len(line.splitlines()) == 1
        assert line.startswith(f"{caught.value.mark}: " if caught.value.mark else "m.yaml: ")
        return line

    return of


def nodes(text: str, top: str = "") -> str:
    """A file with these entries, the first of them in line 3, column 3."""
    return f"version: 1{top}\nnodes:\n" + "".join(f"  {line}\n" for line in text.split("\n"))


def test_the_example_of_the_documentation_is_read_as_it_says(
    load: Load, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    found = load(EXAMPLE, known_skus={"hgx-h100"})
    assert len(found) == 520
    assert next(iter(found)).name == "gpu001"
    assert found.groups["spares"] == tuple(f"gpu{n}" for n in range(513, 521))
    assert found.source == "m.yaml"
    assert found.nodes["gpu007"] == Node(
        "gpu007", address="10.1.0.7", port=22, user="muster", identity_file=("/home/u/.ssh/id_ed25519",),
        sku="hgx-h100", lifecycle=Lifecycle(LifecycleState.RMA, "vendor", dt.date(2026, 12, 1)), rack="r01",
        leaf=("leaf01", "leaf02"), power="pdu-a", bmc=Bmc("10.2.0.7"), labels={"zone": "a"},
    )
    assert not found.nodes["gpu007"].in_service
    assert found.nodes["gpu033"].in_service


def test_a_node_needs_no_settings(load: Load) -> None:
    assert list(load(nodes("b:\na: {}"))) == [Node("b"), Node("a")]


def test_a_nodes_own_entry_refines_its_sets_which_refine_the_defaults(load: Load) -> None:
    found = load(
        nodes("a1: {rack: own, labels: {x: own}}\na[1-2]: {rack: set, power: set, labels: {x: set, y: set}}",
              "\ndefaults: {rack: default, power: default, user: default, labels: {y: default, z: default}}"))
    assert [found.nodes[name].rack for name in ("a1", "a2")] == ["own", "set"]
    assert [found.nodes[name].power for name in ("a1", "a2")] == ["set", "set"]
    assert found.nodes["a1"].user == "default"
    assert found.nodes["a1"].labels == {"x": "own", "y": "set", "z": "default"}


def test_ports_merge_by_pci_address_however_it_is_spelt(load: Load) -> None:
    found = load(nodes("a[1-2]: {ports: {18:00.0: {rail: 0}, 00000000:2A:00.0: {role: storage}}}\n"
                       "a1: {ports: {0000:18:00.0: {rail: 7, leaf: l}}}"))
    assert found.nodes["a1"].ports == {"0000:18:00.0": PortPlan(None, 7, "l"),
                                       "0000:2a:00.0": PortPlan("storage")}
    assert found.nodes["a2"].ports["0000:18:00.0"] == PortPlan(rail=0)


def test_devices_that_are_not_to_be_read_are_names_addresses_and_patterns_of_them(load: Load) -> None:
    found = load(nodes('a[1-2]: {unread: [mlx5_4, 05:00.0, "0000:3B:*"]}\na1: {unread: "eth?"}'))
    assert found.nodes["a1"].unread == ("eth?",)
    assert found.nodes["a2"].unread == ("mlx5_4", "0000:05:00.0", "0000:3b:*")


@pytest.mark.parametrize("value", ['"*"', '"a b"', "-x", "''", "{a: 1}", "[[a]]", '"$(id)"',
                                   f"[{', '.join(['a'] * 65)}]", "a" + "b" * 64])
def test_what_is_no_name_of_a_device_is_refused(refused: Refused, value: str) -> None:
    assert "expected names or PCI addresses of network devices" in refused(nodes(f"a1: {{unread: {value}}}"))


def test_two_sets_that_disagree_are_an_error_that_names_both_lines(refused: Refused) -> None:
    assert refused(nodes("a[1-4]: {rack: r1}\na[4-8]: {rack: r2}")) == (
        "m.yaml:4:12: two sets disagree on rack of a4: 'r1' at m.yaml:3:12, 'r2' here"
    )
    assert "labels.zone of a1" in refused(nodes("a[1-2]: {labels: {zone: x}}\na[0-1]: {labels: {zone: y}}"))


def test_a_nodes_own_entry_does_not_hide_a_disagreement_of_its_sets(refused: Refused) -> None:
    assert "disagree" in refused(nodes("a[1-4]: {rack: r1}\na[4-8]: {rack: r2}\na4: {rack: r3}"))


def test_sets_that_agree_are_fine(load: Load) -> None:
    assert (load(nodes("a[1-4]: {rack: r1, leaf: [x, y]}\na[4-8]: {rack: r1, leaf: [x, y]}")).nodes["a4"].leaf
            == ("x", "y"))


@pytest.mark.parametrize("again", ["a1", "a[1]", "a1,a1"])
def test_a_node_named_twice_is_an_error_that_names_both_lines(refused: Refused, again: str) -> None:
    line = refused(nodes(f"a1: {{rack: r1}}\n{again}: {{power: p}}"))
    assert line.startswith("m.yaml:4:3: duplicate key")
    assert "m.yaml:3:3" in line


def test_a_group_may_carry_settings_and_is_a_set_even_with_one_member(load: Load, refused: Refused) -> None:
    groups = '\ngroups: {one: a1, two: "a[1-2]"}'
    found = load(nodes('"@one": {rack: r1}\n"@two": {power: p}\na1: {rack: mine}', groups))
    assert (found.nodes["a1"].rack, found.nodes["a1"].power) == ("mine", "p")
    assert "disagree" in refused(nodes('"@one": {rack: r1}\n"@two": {rack: r2}', groups))


def test_groups_hold_ranges_lists_other_groups_and_all(load: Load) -> None:
    found = load('version: 1\ngroups: {x: "a[1-2]", y: ["@x", b], rest: "@all!@y", glob: "a*"}\nnodes: '
                 '{"a[1-3]": , b: }')
    assert found.groups == {"x": ("a1", "a2"), "y": ("a1", "a2", "b"), "rest": ("a3",),
                            "glob": ("a1", "a2", "a3")}


@pytest.mark.parametrize(("group", "said"), [
    ('"@y"', "groups contain each other in a cycle: @x > @y > @x"),
    ("gpu[1-3]", "group x names gpu3, which no entry under nodes describes; did you mean gpu2?"),
    ("y", "did you mean @y?"),
    ('"@z"', "no group @z"),
    ('"a["', "a bracket is not closed"),
    ("true", "group x is true, expected a node set"),
    ("{a: 1}", "group x is a map, expected a node set"),
    ('""', "group x is '', expected a node set"),
])
def test_a_wrong_group_is_named_with_its_line(refused: Refused, group: str, said: str) -> None:
    line = refused(f'version: 1\ngroups:\n  x: {group}\n  y: "@x"\nnodes: {{"gpu[1-2]": }}')
    assert said in line
    assert line.startswith("m.yaml:4:6: " if "@x > @y > @x" in said and group == '"@y"' else "m.yaml:3:6: ")


@pytest.mark.parametrize(("entry", "said"), [
    ("{^adress: x}", "unknown key 'adress' in an entry for nodes; did you mean address?"),
    ("{^HostName: x}", "did you mean address?"),
    ("{^IdentityFile: x}", "did you mean identity_file?"),
    ("{^xyzzy: 1}", "known: address, port, user"),
    ("{port: ^0}", "port is the number 0, expected a port number from 1 to 65535"),
    ("{port: ^65536}", "from 1 to 65535"),
    ("{port: ^ssh}", "port is 'ssh', expected a port number"),
    ("{port: ^true}", "port is true"),
    ("{address: ^10.0.0.1:22}", "own: port: 22"),
    ("{address: ^a b}", "expected a host name or an IP address"),
    ("{address: ^-oProxyCommand=id}", "expected a host name or an IP address"),
    ("{address: ^[a, b]}", "address is a list, expected a host name"),
    ("{user: ^-x}", "expected a user name"),
    ("{user: ^}", "user is empty, expected a user name"),
    ("{become: ^yes}", "become is 'yes', expected true or false"),
    ("{become: ^1}", "expected true or false"),
    ("{privilege: ^root}", "expected one of unprivileged, helper, become"),
    ("{privilege: become, ^become: true}", "become and privilege set the same thing"),
    ("{transport: ^openshh}", "did you mean openssh?"),
    ("{identity_file: ^{a: b}}", "expected a file name or a list of them"),
    ("{identity_file: [a, ^[b]]}", "expected a file name"),
    ("{proxy_jump: ^'a b'}", "expected [user@]host[:port]"),
    ("{proxy_jump: ^'a:99999'}", "expected [user@]host[:port]"),
    ("{proxy_jump: ^'-oProxyCommand=id'}", "expected [user@]host[:port]"),
    ("{python: ^python3 -v}", "expected a program"),
    ("{sku: ^hgx-h10}", "undefined SKU 'hgx-h10'; did you mean hgx-h100?"),
    ("{sku: ^8}", "undefined SKU '8'; known: cpu-only, hgx-h100"),
    ("{lifecycle: ^servcie}", "expected one of planned, bringup, service, maintenance, rma, retired; did you "
                              "mean service?"),
    ("{lifecycle: ^{owner: x}}", "lifecycle has no state"),
    ("{lifecycle: {state: rma, ^til: x}}", "unknown key 'til' in lifecycle; did you mean until?"),
    ("{lifecycle: {state: rma, until: ^2026-02-30}}", "lifecycle.until is '2026-02-30', expected a date"),
    ("{lifecycle: {state: rma, until: ^tomorrow}}", "expected a date such as 2026-12-01"),
    ("{rack: ^[r1]}", "rack is a list, expected text"),
    ("{rack: ^true}", "rack is true, expected text"),
    ("{leaf: ^{a: b}}", "expected a leaf switch or a list of them"),
    ("{ports: ^[18:00.0]}", "expected a map from PCI addresses"),
    ("{ports: {^mlx5_0: {}}}", "'mlx5_0' is not a PCI address"),
    ("{ports: {18:00.0: {^rol: x}}}", "unknown key 'rol' in a port; did you mean role?"),
    ("{ports: {18:00.0: {role: ^compte}}}", "expected one of compute, storage, mgmt, dpu"),
    ("{ports: {18:00.0: {expect: ^dwn}}}", "expected one of up, down; did you mean down?"),
    ("{ports: {18:00.0: {rail: ^-1}}}", "expected a rail number"),
    ("{ports: {18:00.0: {}, ^0000:18:00.0: {}}}",
     "duplicate key: port 0000:18:00.0 is already at m.yaml:3:16"),
    ("{bmc: {^user: x}}", "bmc has no address"),
    ("{bmc: {address: x, ^passwort: y}}", "unknown key 'passwort' in bmc; did you mean password?"),
    ("{bmc: ^root:hunter2@10.1.2.3}",
     "bmc contains an @, expected a host name or an IP address; give user: and password: as keys"),
    ("{bmc: {address: x, protocol: ^ssh}}", "bmc.protocol is 'ssh', expected one of redfish, ipmi"),
    ("{bmc: {address: x, port: ^0}}", "bmc.port is the number 0, expected a port number"),
    ("{bmc: {address: x, tls: ^pn}}",
     "bmc.tls is 'pn', expected pin, verify or the path of a CA file, with a / in it"),
    ("{bmc: {address: x, password: ^{}}}", "bmc.password names 0 sources"),
    ("{bmc: {address: x, password: ^{file: a, env: B}}}",
     "bmc.password names 2 sources, expected one of {file: PATH}, {env: NAME}"),
    ("{bmc: {address: x, password: {^path: a}}}", "unknown key 'path' in bmc.password"),
    ("{bmc: {address: x, password: {env: ^A-B}}}",
     "bmc.password.env is 'A-B', expected the name of an environment variable"),
    ("{bmc: {address: x, password: {command: ^[]}}}",
     "bmc.password.command is a list, expected a program and its words"),
    ("{labels: ^[a]}", "expected a map of labels"),
    ("{labels: {^a b: c}}", "'a b' is not a label"),
    ("{labels: {a: ^[b]}}", "labels.a is a list, expected text"),
    ("^7", "'n1' is the number 7, expected a map of keys"),
])
def test_a_wrong_setting_is_one_line_that_says_where_and_what_was_expected(
    refused: Refused, entry: str, said: str,
) -> None:
    before = f"  n1: {entry}".partition("^")[0]      # the place that the error must name
    line = refused(nodes(f"n1: {entry.replace('^', '')}"), known_skus={"hgx-h100", "cpu-only"})
    assert said in line
    assert line.startswith(f"m.yaml:3:{len(before) + 1}: ")


@pytest.mark.parametrize(("text", "said"), [
    ("", "m.yaml: is empty"),
    ("- a\n", "expected a map with the keys version and nodes"),
    ("muster", "expected a map with the keys version and nodes"),
    ("nodes: {a: }", "the key version is missing, expected version: 1"),
    ("version: 2\nnodes: {a: }", "m.yaml:1:10: version is the number 2, expected 1"),
    ("version: '1'\nnodes: {a: }", "m.yaml:1:10: version is '1', expected 1"),
    ("version: true\nnodes: {a: }", "version is true, expected 1"),
    ("version: 1\nnods: {}", "m.yaml:2:1: unknown key 'nods' in the inventory; did you mean nodes?"),
    ("version: 1", "nodes names no node"),
    ("version: 1\nnodes: {}", "nodes names no node"),
    ("version: 1\nnodes: [a]", "m.yaml:2:8: nodes is a list, expected a map"),
    ("version: 1\nnodes: {a: , a: }", "m.yaml:2:14: duplicate key 'a': it is already at m.yaml:2:9"),
    ("version: 1\nnodes: {'a[1-200000]': }", "names over 100000 nodes"),
    ("version: 1\nnodes: {'a[1-60000]': , 'b[1-60000]': }", "m.yaml:2:25: names over 100000 nodes"),
    ("version: 1\nnodes: {'a b': }", "m.yaml:2:9: node set 'a b'"),
    ("version: 1\nnodes: {'-a': }", "is not a node name"),
    ("version: 1\nnodes: {'@all': }", "cannot be used here"),
    ("version: 1\nnodes: {'a!a': }", "names no node"),
    ("version: 1\ngroups: {all: a}\nnodes: {a: }", "a group cannot be called all"),
    ("version: 1\ngroups: {'a b': a}\nnodes: {a: }", "'a b' is not a group name"),
    ("version: 1\ngroups: [a]\nnodes: {a: }", "groups is a list, expected a map"),
    ("version: 1\ndefaults: {usr: x}\nnodes: {a: }",
     "m.yaml:2:12: unknown key 'usr' in an entry for nodes; did you mean user?"),
    ("version: 1\ndefaults: x\nnodes: {a: }", "defaults is 'x', expected a map"),
    (b"version: 1\nnodes: {\xff: }", "m.yaml:2:9: is not UTF-8 text"),
    ("version: 1\nnodes: {a: }\n---\n", "a second document starts here"),
    ("version: 1\nnodes: {a: {rack: !!python/name:os.system }}", "unknown tag"),
    ("version: 1\nnodes: {a: {address: x}, b: {address: x}}",
     "b has the address and port of a (given at m.yaml:2:"),
    ("version: 1\nnodes: {a: {address: x.net}, b: {address: X.Net}}", "b has the address and port of a"),
    ("version: 1\nnodes: {a: {address: x.net}, b: {address: x.net.}}", "b has the address and port of a"),
    ("version: 1\nnodes: {a: {address: b}, b: }",
     "m.yaml:2:13: a has the address and port of b (its name): each node"),
])
def test_a_wrong_file_is_one_line(refused: Refused, text: str | bytes, said: str) -> None:
    assert said in refused(text)


def test_one_address_may_serve_several_nodes_on_ports_of_their_own(load: Load) -> None:
    assert len(load(nodes("a: {address: x, port: 1}\nb: {address: x, port: 2}"))) == 2


def test_a_node_that_left_service_may_leave_its_address_to_its_successor(load: Load) -> None:
    assert len(load(nodes("a: {address: x, lifecycle: rma}\nb: {address: x}"))) == 2


def test_without_known_skus_any_sku_is_taken(load: Load) -> None:
    assert load(nodes("a: {sku: anything}")).nodes["a"].sku == "anything"


def test_names_that_look_like_numbers_keep_their_spelling(load: Load) -> None:
    found = load(nodes("12: {rack: 07, power: 1.10, leaf: [0x1, 1e3], labels: {v: 1.0, on: no}}")).nodes["12"]
    assert (found.rack, found.power, found.leaf, found.labels) == (
        "07", "1.10", ("0x1", "1e3"), {"v": "1.0", "on": "no"})


def test_relative_files_start_at_the_inventorys_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/m.yaml").write_text(nodes("a: {identity_file: [key, /abs], known_hosts_file: hosts}"))
    monkeypatch.chdir(tmp_path)
    found = load_inventory("site/m.yaml").nodes["a"]
    assert found.identity_file == (f"{tmp_path}/site/key", "/abs")
    assert found.known_hosts_file == (f"{tmp_path}/site/hosts",)


@pytest.mark.parametrize(("text", "meant"), [
    ("gpu1", "gpu1"), ("10.0.0.1", "10.0.0.1"), ("fe80::1", "fe80::1"), ("[fe80::1]", "fe80::1"),
    ("fe80::1%eth0", "fe80::1%eth0"), ("10.0.0.1:22", None), ("[gpu1]", None), ("-x", None), ("a b", None),
    ("a\n", None), ("", None), (":::", None),
])
def test_an_address_is_a_name_or_an_ip_address(text: str, meant: str | None) -> None:
    assert host(text) == meant


@pytest.mark.parametrize(("text", "meant"), [
    ("18:00.0", "0000:18:00.0"), ("0000:18:00.0", "0000:18:00.0"), ("00000000:18:00.0", "0000:18:00.0"),
    ("0001:AF:1f.7", "0001:af:1f.7"), ("10000:18:00.0", "10000:18:00.0"), ("18:00", None), ("18:20.0", None),
    ("18:00.8", None), ("0:18:00.0", None), ("mlx5_0", None),
])
def test_pci_addresses_take_the_kernels_form(text: str, meant: str | None) -> None:
    assert pci_address(text) == meant


def test_each_value_knows_the_line_it_came_from(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(EXAMPLE)
    origins = load_with_origins(path).origins["gpu007"]
    assert {key: mark.line for key, mark in origins.items()} == {
        "user": 2, "port": 2, "identity_file": 2, "sku": 2, "rack": 5, "leaf": 5, "power": 5,
        "labels.zone": 5, "address": 7, "bmc.address": 7, "lifecycle": 7,
    }
    assert origins["user"] == Mark(str(path), 2, 12)


def test_four_thousand_nodes_load_in_well_under_a_second(load: Load) -> None:
    text = nodes("\n".join(
        f"gpu{n:04}: {{address: 10.0.{n // 256}.{n % 256}, bmc: 10.1.{n // 256}.{n % 256}, rack: r{n // 32}, "
        f"labels: {{zone: a}}}}"
        for n in range(4096)
    ))
    started = time.process_time()
    assert len(load(text)) == 4096
    # 0.3 s where it was measured; the bound leaves room for slow machines
    assert time.process_time() - started < 2


WORD = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True)
PCI = st.builds("{:04x}:{:02x}:{:02x}.{}".format, st.integers(0, 65535), st.integers(0, 255),
                st.integers(0, 31), st.integers(0, 7))
ENTRY = st.fixed_dictionaries({}, optional={
    "port": st.integers(1, 65535), "user": WORD, "become": st.booleans(), "python": WORD, "sku": WORD,
    "identity_file": st.lists(WORD.map("/k/{}".format), min_size=1, max_size=3), "proxy_jump": WORD,
    "rack": WORD, "known_hosts_file": WORD.map("/k/{}".format),
    "leaf": st.lists(WORD, min_size=1, max_size=3), "nvlink_domain": WORD, "power": WORD,
    "lifecycle": st.fixed_dictionaries(
        {"state": st.sampled_from([state.value for state in LifecycleState])},
        optional={"owner": WORD, "until": st.dates(dt.date(1000, 1, 1)).map(dt.date.isoformat)},
    ),
    "bmc": st.fixed_dictionaries({"address": WORD}, optional={
        "user": WORD, "port": st.integers(1, 65535), "protocol": st.sampled_from(["redfish", "ipmi"]),
        "password": st.one_of(st.fixed_dictionaries({"file": WORD.map("/k/{}".format)}),
                              st.fixed_dictionaries({"env": st.just("PASSWORD_{node}")}),
                              st.fixed_dictionaries({"command": st.lists(WORD, min_size=1, max_size=3)})),
        "tls": st.sampled_from(["pin", "verify", "/etc/ca.pem"]),
    }),
    "labels": st.dictionaries(WORD, WORD, max_size=3),
    "ports": st.dictionaries(PCI, st.fixed_dictionaries({}, optional={
        "role": st.sampled_from(["compute", "storage", "mgmt", "dpu"]), "rail": st.integers(0, 1023),
        "leaf": WORD, "expect": st.sampled_from(["up", "down"]),
    }), max_size=3),
})


def meant(name: str, entry: dict[str, Any]) -> Node:
    """The node that an entry of plain data stands for, worked out without the loader."""
    values: dict[str, Any] = dict(entry)
    for key in ("identity_file", "known_hosts_file", "leaf"):
        if key in values:
            values[key] = tuple(values[key]) if isinstance(values[key], list) else (values[key],)
    if "lifecycle" in values:
        given_state = values["lifecycle"]
        until = dt.date.fromisoformat(given_state["until"]) if "until" in given_state else None
        values["lifecycle"] = Lifecycle(LifecycleState(given_state["state"]), given_state.get("owner"), until)
    if "become" in values:
        values["privilege"] = Privilege.BECOME if values.pop("become") else Privilege.UNPRIVILEGED
    if "bmc" in values:
        controller = dict(values["bmc"])
        controller["speaks"] = Speaks(controller.pop("protocol", "redfish"))
        for source, words in controller.pop("password", {}).items():
            controller["secret"] = Secret(SecretFrom(source),
                                          tuple(words) if isinstance(words, list) else (words,))
        values["bmc"] = Bmc(**controller)
    if "ports" in values:
        values["ports"] = {key: PortPlan(**port) for key, port in values["ports"].items()}
    return Node(name, **values)


def own_controllers(entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same, no controller at the address of another."""
    return {name: {**entry, "bmc": {**entry["bmc"], "address": f"{name}.{entry['bmc']['address']}"}}
            if "bmc" in entry else entry for name, entry in entries.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None,
          max_examples=tries(60))
@given(st.dictionaries(WORD, ENTRY, min_size=1, max_size=4).map(own_controllers), st.booleans())
def test_whatever_a_program_writes_as_yaml_is_loaded_as_meant(
    load: Load, entries: dict[str, Any], flow: bool,
) -> None:
    text = yaml.safe_dump({"version": 1, "nodes": entries}, default_flow_style=flow, sort_keys=False)
    found = load(text)
    assert dict(found.nodes) == {name: meant(name, entry) for name, entry in entries.items()}


PIECES = st.sampled_from([
    "version: 1\n", "nodes:\n", "  a[1-2]: ", "  a1: ", "{rack: r1}\n", "{port: 22}", "groups: {x: a1}\n",
    "defaults: ", "\n", "  ", "ports: {18:00.0: {rail: 1}}", "lifecycle: {state: rma, until: 2026-01-01}",
    "@x", "*a", "&a ", "bmc: ", "[", "]", "{", "}", ": ", ", ", "'", '"', "# ", "!!int ", "- ", "? ", "1:30",
    "~", "\x1b", "é", "\u202e",
])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=tries(300))
@given(st.lists(PIECES, max_size=25).map("".join).map(str.encode) | st.binary(max_size=200))
def test_no_file_raises_anything_but_a_one_line_config_error(load: Load, data: bytes) -> None:
    try:
        load(data)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["a", "@g", "18:00.0", "rma", "2026-01-01", "x:1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["state", "until", "address", "user", "role", "rail", "leaf", "18:00.0", "a"]), inner,
        max_size=3,
    ),
    max_leaves=5,
)
SETTINGS = st.dictionaries(st.sampled_from([
    "address", "port", "user", "become", "identity_file", "known_hosts_file", "proxy_jump", "python", "sku",
    "lifecycle", "rack", "leaf", "ports", "nvlink_domain", "power", "bmc", "labels", "other",
]), JUNK, max_size=2) | JUNK
DOCUMENT = st.fixed_dictionaries(
    {"nodes": st.dictionaries(st.sampled_from(["a", "a[1-3]", "a1", "@g", "a[2-4]", "-"]), SETTINGS,
                              max_size=3) | JUNK},
    optional={
        "defaults": SETTINGS,
        "groups": st.dictionaries(st.sampled_from("gh"), JUNK | st.sampled_from(["@g", "@h", "a", "a[1-2]"]),
                                  max_size=2) | JUNK,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None,
          max_examples=tries(200))
@given(DOCUMENT)
def test_no_shape_of_document_raises_anything_but_a_one_line_config_error(
    load: Load, document: dict[str, Any],
) -> None:
    try:
        load(yaml.safe_dump({"version": 1} | document, allow_unicode=True))
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
