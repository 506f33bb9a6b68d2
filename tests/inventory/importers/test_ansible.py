"""Ansible's inventories: what is taken and refused, and answers like those of ansible-inventory itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.errors import InventoryError, MusterError
from inventory.importers import ansible
from inventory.importers.base import Imported
from tests.testbed.require import require
from tests.tries import tries

ORACLE = Path(sys.executable).parent / "ansible-inventory"


def plain(found: Imported) -> dict[str, dict[str, Any]]:
    return {name: dict(values) for name, values in found.nodes.items()}


def sets(groups: Mapping[str, Any]) -> dict[str, set[str]]:
    return {name: set(members) for name, members in groups.items()}


Load = Callable[..., Imported]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads an inventory of the given text, with other files (path -> text) beside it."""
    def make(text: str, name: str = "hosts", **others: str) -> Imported:
        write(tmp_path, {name: text, **{path.replace("__", "/"): body for path, body in others.items()}})
        return ansible.load(tmp_path / name)
    return make


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body)


# what is taken

def test_how_a_host_is_reached_is_taken_and_other_variables_are_named(load: Load) -> None:
    found = load("""\
[gpu]
gpu[001:003] ansible_host=10.0.0.1 ansible_port=2222 ansible_user=ops rack=r1
gpu002 ansible_host=10.0.0.2
login:22 ansible_ssh_private_key_file=~/.ssh/k ansible_python_interpreter=/usr/bin/python3.11 ansible_become=yes

[gpu:vars]
ansible_ssh_common_args=-o ProxyJump=me@bastion:2200 -o StrictHostKeyChecking=no
""")  # noqa: E501
    reach = {"port": 2222, "user": "ops", "proxy_jump": "me@bastion:2200"}
    assert plain(found) == {
        "gpu001": {"address": "10.0.0.1", **reach}, "gpu002": {"address": "10.0.0.2", **reach},
        "gpu003": {"address": "10.0.0.1", **reach},
        "login": {"port": 22, "identity_file": "~/.ssh/k", "python": "/usr/bin/python3.11",
                  "privilege": "become", "proxy_jump": "me@bastion:2200"},
    }
    assert found.groups == {"gpu": ("gpu001", "gpu002", "gpu003", "login")}
    assert found.notes == (
        "gpu[001-003],login: arguments of ssh are ignored: StrictHostKeyChecking=no",
        "variables not about reaching a host are ignored: rack",
    )


@pytest.mark.parametrize(("args", "jump"), [
    ("-o ProxyJump=b", "b"), ("-oProxyJump=u@b:22", "u@b:22"), ("-J a,b", "a,b"), ("-Ja", "a"),
    ("-o 'ProxyJump b'", "b"), ("-o PROXYJUMP=b", "b"), ("-o ProxyJump=a -J b", "a"),
    ("-o ProxyCommand=\"ssh -W %h:%p -q u@b\"", "u@b"),
    ("-o ProxyCommand=\"ssh -p 2222 -l u -W %h:%p b\"", "u@b:2222"),
    ("-o ProxyCommand=\"nc %h %p\"", None), ("-o ProxyCommand=\"ssh -F x -W %h:%p b\"", None),
    ("-o ProxyJump=", None), ("-J", None), ("-o ProxyJump=\"a b\"", None), ("-C -o ControlMaster=auto", None),
])
def test_a_jump_host_is_found_among_the_arguments_of_ssh(args: str, jump: str | None, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"hosts": {"a": {"ansible_ssh_common_args": args}}}}))
    found = ansible.load(tmp_path / "hosts.yml")
    assert dict(found.nodes["a"]) == ({"proxy_jump": jump} if jump else {})
    if jump is None:
        assert found.notes[0].startswith("a: arguments of ssh are ignored")


def test_templates_and_secrets_are_left_out_with_a_note(load: Load) -> None:
    found = load("""\
all:
  hosts:
    a:
      ansible_host: "{{ lookup('pipe', 'id') }}"
      ansible_user: !vault |
        $ANSIBLE_VAULT;1.1;AES256
        6162
      ansible_port: 22
""", "hosts.yml", host_vars__a="$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    assert plain(found) == {"a": {"port": 22}}
    assert found.notes[0] == """a: ansible_host is ignored: "{{ lookup('pipe', 'id') }}" is a template"""
    assert found.notes[1] == "a: ansible_user is ignored: it is encrypted"
    assert found.notes[2].endswith("host_vars/a is ignored: it is encrypted")


@pytest.mark.parametrize(("line", "note"), [
    ("ansible_connection=local",
     "a: ansible_connection=local is ignored: muster reaches every node over SSH"),
    ("ansible_connection=winrm", "a: ansible_connection=winrm is ignored"),
    ("ansible_become=1 ansible_become_method=doas",
     "a: ansible_become is ignored: muster becomes root with sudo, not doas"),
    ("ansible_become=true ansible_become_user=app",
     "a: ansible_become is ignored: muster becomes root, not app"),
    ("ansible_python_interpreter='/usr/bin/env python3'",
     "a: ansible_python_interpreter '/usr/bin/env python3' is ignored"),
])
def test_what_muster_does_otherwise_is_a_note(load: Load, line: str, note: str) -> None:
    found = load(f"a {line}\n")
    assert plain(found) == {"a": {}}
    assert found.notes[0].startswith(note)


@pytest.mark.parametrize("line", [
    "ansible_connection=ssh", "ansible_become=no", "ansible_python_interpreter=auto_silent", "ansible_host=a",
    "ansible_user=", "ansible_user=None",
])
def test_what_says_nothing_new_says_nothing(load: Load, line: str) -> None:
    found = load(f"a {line}\n")
    assert plain(found) == {"a": {}}
    assert found.notes == ()


def test_a_key_beside_an_inventory_is_taken_with_a_warning(load: Load) -> None:
    found = load("a ansible_private_key_file=keys/k\n")
    assert plain(found) == {"a": {"identity_file": "keys/k"}}
    assert "identity_file 'keys/k' is relative" in found.notes[0]


# what is refused

@pytest.mark.parametrize(("name", "text", "what"), [
    ("hosts.sh", "#!/bin/sh\ntouch ran\n", "is a program"),
    ("aws.yml", "plugin: aws_ec2\n", "configures an inventory plugin"),
    ("hosts", "$ANSIBLE_VAULT;1.1;AES256\n00\n", "is encrypted"), ("hosts.toml", "[a]\n", "is TOML"),
])
def test_what_only_ansible_can_read_is_refused_with_the_command_that_writes_it_down(
    tmp_path: Path, name: str, text: str, what: str,
) -> None:
    for path in (tmp_path / "single" / name, tmp_path / "folder" / "inner" / name):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    for source, at in ((tmp_path / "single" / name, tmp_path / "single" / name),
                       (tmp_path / "folder", tmp_path / "folder/inner" / name)):
        with pytest.raises(InventoryError) as caught:
            ansible.load(source)
        assert str(caught.value).startswith(f"{at}: {what}")
        assert f"`ansible-inventory -i {source} --list --export > hosts.json`" in str(caught.value)
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize(("text", "error"), [
    ("", "hosts: names no node"),
    ("[a\n", "hosts:1:1: the host pattern '[a': a bracket is not closed"),
    ("[a b]\n", "hosts:1:1: '[a b]' is not a section"),
    ("[a:c]\n", "hosts:1:1: section '[a:c]': expected [group], [group:children] or [group:vars]"),
    ("h\n[a:vars]\nx=1\n", "hosts:2:1: variables are set for group 'a', which is not declared"),
    ("[a:children]\nb\n", "hosts:2:1: group 'b', a child of 'a', is not declared"),
    ("[a]\nh\n[a:vars]\n  nothing\n", "hosts:4:3: expected key=value, found 'nothing'"),
    ("h x\n", "hosts:1:1: expected key=value after the host, found 'x'"),
    ("h x='1\n", "hosts:1:1: \"h x='1\": no closing quotation"),
    ("h[1:2\n", "hosts:1:1: the host pattern 'h[1:2': a bracket is not closed"),
    ("h[2:1]\n", "hosts:1:1: the host pattern 'h[2:1]': the range runs backwards"),
    ("h[01:100]\n", "hosts:1:1: the host pattern 'h[01:100]': the ends of a padded range need equal lengths"),
    ("h[1:9:0]\n", "hosts:1:1: the host pattern 'h[1:9:0]': '0' is not a step"),
    ("h[1-9]\n", "hosts:1:1: the host pattern 'h[1-9]': [1-9] is not a range, expected [first:last]"),
    ("h[0:999999999]\n", "hosts:1:1: the host pattern 'h[0:999999999]': names over 100000 hosts"),
    ("h[0:999][0:999]\n", "hosts:1:1: the host pattern 'h[0:999][0:999]' names over 100000 hosts"),
    ("h1\nh:\n", "hosts:2:1: the host 'h:' ends in ':'"),
    ("::1\n", "hosts:1:1: '::1' is not a node name"),
    ("\n\nh ansible_port=99999\n", "hosts:3:1: port is the number 99999, expected a port number"),
    ("h ansible_port=x\n", "hosts:1:1: port is 'x', expected a port number"),
    ("h ansible_host='a b'\n", "hosts:1:1: address is 'a b', expected a host name"),
    ("h ansible_user='-oX'\n", "hosts:1:1: user is '-oX', expected a user name"),
    ("h ansible_user='[1]'\n", "hosts:1:1: ansible_user of h is a list, expected text"),
    ("h ansible_ssh_common_args=\"'a\"\n",
     "hosts:1:1: ansible_ssh_common_args of h is \"'a\", expected arguments"),
    ("[a]\nh\n[a:vars]\nansible_group_priority=x\n",
     "hosts:4:1: ansible_group_priority of group 'a' is 'x', expected a whole number"),
    ("[a:children]\nb\n[b:children]\na\n", "hosts:4:1: group 'a' contains itself"),
    ("[a:children]\na\n", "hosts:2:1: group 'a' contains itself"),
    ("", "hosts.yml: not an inventory: expected a map of groups"), ("[1]\n", "hosts.yml: not an inventory"),
    ("all:\n  hosts: [a]\n", "hosts.yml:2:3: hosts of group 'all' is not a map"),
    ("{all: {vars: 5}}", "hosts.yml:1:8: vars of group 'all' is not a map"),
    ("all:\n  hosts:\n    a: 5\n", "hosts.yml:3:5: host 'a' is not a map of variables"),
    ("all: 5\n", "hosts.yml:1:1: group 'all' is not a map"),
    ("all:\n  hosts:\n    a: {ansible_port: 0}\n", "hosts.yml:3:23: port is the number 0"),
    ("all:\n  hosts:\n    'a b':\n", "hosts.yml:3:5: 'a b' is not a node name"),
    ("all: !!python/object:os.system {}\n", "hosts.yml:1:6: unknown tag"),
    ("all: &a {children: {b: *a}}\n", "hosts.yml:1:6: an alias is inside its own anchor"),
    ("all: {hosts: {a: {x: 2026-99-99}}}\n", "hosts.yml:1:22: '2026-99-99' does not fit its tag"),
    ("a: {\n", "hosts.yml:2:1: not valid YAML"), ("[" * 100, "hosts.yml:1:65: nested deeper than 64 levels"),
    ("a: {children: {b: {children: {a: }}}}\n", "hosts.yml:1:31: group 'a' contains itself"),
])
def test_a_mistake_in_an_ini_or_a_yaml_file_is_one_line_with_its_place(
    load: Load, tmp_path: Path, text: str, error: str,
) -> None:
    with pytest.raises(InventoryError) as caught:
        load(text, error.partition(":")[0])
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(error)


def test_no_alias_bomb_no_circle_of_folders_and_no_foreign_path_takes_the_time(
    load: Load, tmp_path: Path,
) -> None:
    bomb = "x0: &x0 {hosts: {h0: }}\n" + "".join(f"x{at}: &x{at} {{children: {{a{at}: *x{at - 1}, b{at}: "
                                                 f"*x{at - 1}, c{at}: *x{at - 1}}}}}\n"
                                                 for at in range(1, 15))
    with pytest.raises(InventoryError, match="names over 1000000 hosts and groups in all"):
        load(bomb, "bomb.yml")
    circle = tmp_path / "circle"
    circle.mkdir()
    (circle / "again").symlink_to(circle)
    with pytest.raises(InventoryError, match=r"more than 20 deep|cannot be read"):
        ansible.load(circle)
    (tmp_path / "secret").write_text("ansible_user: leaked\n")
    (tmp_path / "group_vars").mkdir()
    assert plain(load("[../secret]\na\n")) == {"a": {}}


@pytest.mark.parametrize(("name", "text", "error"), [
    ("hosts.ini", "h\nh " + "x=1 " * 100_000, "hosts.ini:2:1: the line is over 65536 characters long"),
    ("hosts.ini", f"h ansible_ssh_common_args={'x' * 5000}",
     "hosts.ini:1:1: ansible_ssh_common_args of h is over 4096 characters long"),
    ("hosts.yml", "a: " + "1:" * 1_000_000 + "1",
     "hosts.yml:1:4: a value other than text has over 4096 characters"),
])
@pytest.mark.timeout(20)
def test_what_would_take_minutes_to_read_is_refused_at_once(
    load: Load, tmp_path: Path, name: str, text: str, error: str,
) -> None:
    with pytest.raises(InventoryError) as caught:
        load(text, name)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == error


def test_a_missing_inventory_and_a_broken_file_beside_it_are_named(load: Load, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"none: no such file"):
        ansible.load(tmp_path / "none")
    with pytest.raises(InventoryError, match=r"group_vars/all\.yml:1:1: expected a map of variables"):
        load("a\n", **{"group_vars/all.yml": "- x\n"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InventoryError, match="empty: contains no inventory file"):
        ansible.load(tmp_path / "empty")


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
       | st.text(alphabet="[]:=ab \n{}'\"#&*!<-x123,", max_size=200).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_raise_anything_but_one_line(tmp_path: Path, data: bytes) -> None:
    for name in ("hosts", "hosts.yml", "hosts.json"):
        (tmp_path / name).write_bytes(data)
        try:
            ansible.load(tmp_path / name)
        except MusterError as problem:
            assert str(problem).isprintable()


# the same as ansible-inventory

def oracle(path: Path, *options: str) -> Any:
    """What ansible-inventory makes of an inventory, without anybody's configuration."""
    require(ORACLE.exists(), "no ansible-inventory beside this Python: pip install 'ansible-core>=2.15'")
    home = path.parent
    (home / "ansible.cfg").touch()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ANSIBLE_CONFIG": str(home / "ansible.cfg"),
                   "LC_ALL": "C.UTF-8", "ANSIBLE_LOCAL_TEMP": str(home / ".ansible-tmp"),
                   "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1"}
    done = subprocess.run([str(ORACLE), "-i", str(path), "--list", *options], env=environment, cwd=home,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expected(listing: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, set[str]]]:
    """What is to be taken of Ansible's own answer, all precedence already applied by it."""
    def members(group: str) -> set[str]:
        held = listing.get(group, {})
        return set(held.get("hosts", [])).union(*(members(child) for child in held.get("children", [])))

    nodes: dict[str, dict[str, Any]] = {}
    for name in members("all"):
        variables = {key: value["__ansible_unsafe"] if isinstance(value, dict) and "__ansible_unsafe" in value
                     else value for key, value in listing["_meta"]["hostvars"].get(name, {}).items()}
        values: dict[str, Any] = {}
        for key, names in (("address", ("ansible_ssh_host", "ansible_host")),
                           ("port", ("ansible_ssh_port", "ansible_port")),
                           ("user", ("ansible_ssh_user", "ansible_user")),
                           ("identity_file", ("ansible_ssh_private_key_file", "ansible_private_key_file"))):
            given_ = [variables[each] for each in names if variables.get(each) not in (None, "")]
            if given_ and not (key == "address" and given_[0] == name):
                values[key] = int(given_[0]) if key == "port" else str(given_[0])
        if str(variables.get("ansible_become")).lower() in ("true", "yes", "1"):
            values["privilege"] = "become"
        nodes[name] = values
    groups = {group: members(group) for group in listing if group not in ("_meta", "all", "ungrouped")}
    return nodes, {group: names for group, names in groups.items() if names}


def same_as_ansible(path: Path, scratch: Path) -> Imported:
    """What we make of an inventory, which is what Ansible makes of it and of what it writes down."""
    listing = oracle(path)
    found = ansible.load(path)
    assert (plain(found), sets(found.groups)) == expected(listing)
    saved = scratch / "listing.json"
    saved.write_text(json.dumps(listing))
    again = ansible.load(saved)
    assert (plain(again), sets(again.groups)) == (plain(found), sets(found.groups))
    return found


SITES: dict[str, dict[str, str]] = {
    "ini, with ranges, literals and comments": {"hosts": """\
# before any section
lone:2222 ansible_user=007
quoted ansible_user='ab'#c ansible_host="10.0.0.9" # a comment
[web]
web[01:10:3].example ansible_port=22
web-[a:c]
[db]
web01.example:2022 ansible_port=44
db1:2022
[db:vars]
ansible_port=23 # Python takes this for a comment
ansible_user='db'
ansible_become = yes
[site:children]
web
db # grouped
[site:vars]
ansible_user=site
ansible_ssh_user=None
"""},
    "yaml, with merge keys, old truths and a host as text": {"hosts.yml": """\
all:
  vars: {ansible_user: on}
  children:
    a:
      hosts: {"n[1:3]": , n2: {ansible_host: 10.0.0.2, ansible_port: 010}}
      vars: &v {ansible_ssh_user: deep, ansible_become: yes}
    b:
      hosts: n9
      vars:
        <<: *v
        ansible_ssh_user: !unsafe plain
      children: {c: {hosts: {n1: }}}
"""},
    "a folder with group_vars and host_vars": {
        "inv/10-hosts.ini": "[a]\nn1\nn2 ansible_user=inline\n[b]\nn2\nn3\n[p:children]\na\n[a:vars]\n"
                            "ansible_port=1\nansible_host=h.inline\n",
        "inv/20-more.yml": "b: {hosts: {n4: {ansible_user: yaml}}, vars: {ansible_group_priority: 5, "
                           "ansible_port: 2}}\n",
        "inv/sub/more": "[a]\nn5\n", "inv/README.md": "[nothing]\nm\n", "inv/old.ini~": "[nothing]\nm\n",
        "inv/.hidden": "m\n",
        "inv/group_vars/all.yml": "ansible_host: h.all\nansible_user: all\n",
        "inv/group_vars/a/10.yml": "ansible_user: a10\n",
        "inv/group_vars/a/20.json": '{"ansible_user": "a20"}',
        "inv/group_vars/a/ignored.txt": "ansible_user: no\n",
        "inv/group_vars/p": "ansible_user: p\nansible_port: 99\n",
        "inv/group_vars/ungrouped.yml": "ansible_user: alone\n",
        "inv/host_vars/n3.yaml": "ansible_ssh_host: h3\nansible_host: other\n", "inv/host_vars/n1": "---\n",
        "inv/sub/group_vars/a": "ansible_port: 7\n",
    },
    "groups beside each other, by depth, priority and name": {"hosts": """\
n1 ansible_become=true
[z]
n1
[m]
n1
[k]
n1
[top:children]
k
[z:vars]
ansible_user=z
ansible_port=26
[m:vars]
ansible_user=m
ansible_group_priority=10
[k:vars]
ansible_port=11
ansible_host=k
[top:vars]
ansible_host=top
[all:vars]
ansible_host=all
"""},
}


@pytest.mark.parametrize("name", SITES)
def test_a_site_is_read_as_ansible_reads_it(name: str, tmp_path: Path) -> None:
    write(tmp_path / "site", SITES[name])
    found = same_as_ansible(tmp_path / "site" / next(iter(SITES[name])).partition("/")[0], tmp_path)
    assert any(found.nodes.values())


def test_an_export_gives_what_its_inventory_gives(tmp_path: Path) -> None:
    write(tmp_path, SITES["groups beside each other, by depth, priority and name"])
    (tmp_path / "hosts.json").write_text(json.dumps(oracle(tmp_path / "hosts", "--export")))
    found, again = ansible.load(tmp_path / "hosts"), ansible.load(tmp_path / "hosts.json")
    assert (plain(again), sets(again.groups)) == (plain(found), sets(found.groups))


def test_json_of_a_script_may_hold_vaults_plain_lists_and_unsafe_text(load: Load) -> None:
    found = load(json.dumps({
        "web": ["a", "b"],
        "_meta": {"hostvars": {"a": {"ansible_user": {"__ansible_vault": "x"}},
                               "b": {"ansible_user": {"__ansible_unsafe": "u"}}}},
    }), "hosts.json")
    assert plain(found) == {"a": {}, "b": {"user": "u"}}
    assert found.notes == ("a: ansible_user is ignored: it is encrypted",)


HOSTS = [f"n{at}" for at in range(1, 6)]
GROUPS = ["ga", "gb", "gc", "gd"]      # a group's children stand after it, so that there is no circle
VARS = st.dictionaries(st.sampled_from(["ansible_host", "ansible_ssh_host", "ansible_port", "ansible_user",
                                        "ansible_become", "other"]), st.integers(1, 9),
                       max_size=3).map(lambda found: {key: value_of(key, at) for key, at in found.items()})
SITE = st.fixed_dictionaries({
    "hosts": st.dictionaries(st.sampled_from(HOSTS), VARS, min_size=1),
    "members": st.dictionaries(st.sampled_from(GROUPS),
                               st.lists(st.sampled_from(HOSTS), max_size=3, unique=True)),
    "children": st.sets(st.tuples(st.sampled_from(GROUPS), st.sampled_from(GROUPS)).filter(
        lambda pair: pair[0] < pair[1]), max_size=4),
    "vars": st.dictionaries(st.sampled_from(["all", "ungrouped", *GROUPS]), VARS, max_size=5),
    "priority": st.dictionaries(st.sampled_from(GROUPS), st.integers(-2, 5), max_size=2),
    "group_vars": st.dictionaries(st.sampled_from(["all", "ungrouped", *GROUPS]), VARS, max_size=3),
    "host_vars": st.dictionaries(st.sampled_from(HOSTS), VARS, max_size=2),
})


def value_of(key: str, at: int) -> Any:
    return {"ansible_port": at, "ansible_become": at % 2 == 0, "other": at}.get(key, f"v{at}")


def as_ini(site: Mapping[str, Any]) -> str:
    lines = [f"{name} {' '.join(f'{key}={value}' for key, value in values.items())}"
             for name, values in site["hosts"].items()]
    for group in GROUPS:
        lines += [f"[{group}]", *(name for name in site["members"].get(group, []) if name in site["hosts"])]
    for parent, child in sorted(site["children"]):
        lines += [f"[{parent}:children]", child]
    for group, values in site["vars"].items():
        lines += [f"[{group}:vars]", *(f"{key}={value}" for key, value in values.items())]
    for group, priority in site["priority"].items():
        lines += [f"[{group}:vars]", f"ansible_group_priority={priority}"]
    return "\n".join(lines) + "\n"


def as_yaml(site: Mapping[str, Any]) -> str:
    groups: dict[str, Any] = {"all": {"hosts": dict(site["hosts"]), "vars": site["vars"].get("all", {})}}
    for group in ["ungrouped", *GROUPS]:
        groups[group] = {
            "hosts": dict.fromkeys(name for name in site["members"].get(group, []) if name in site["hosts"]),
            "vars": {**site["vars"].get(group, {}), **({"ansible_group_priority": site["priority"][group]}
                                                       if group in site["priority"] else {})},
            "children": {child: {} for parent, child in sorted(site["children"]) if parent == group},
        }
    return yaml.safe_dump(groups)


@pytest.mark.slow
@pytest.mark.timeout(400)
@settings(max_examples=tries(30), deadline=None)
@given(site=SITE)
def test_any_site_is_read_as_ansible_reads_it_in_ini_and_in_yaml(
    site: dict[str, Any], tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("site")
    beside = {f"group_vars/{name}.yml": yaml.safe_dump(values) for name, values in site["group_vars"].items()}
    beside |= {f"host_vars/{name}": yaml.safe_dump(values) for name, values in site["host_vars"].items()}
    write(folder, {"hosts.ini": as_ini(site), "hosts.yml": as_yaml(site), **beside})
    found = same_as_ansible(folder / "hosts.ini", tmp_path_factory.mktemp("listing"))
    other = ansible.load(folder / "hosts.yml")
    assert (plain(other), sets(other.groups)) == (plain(found), sets(found.groups))
