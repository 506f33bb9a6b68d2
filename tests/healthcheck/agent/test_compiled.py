"""Rules through JSON, and the bundle that carries them: nothing is lost, nothing else comes along,
and equal inputs are equal bytes."""

from __future__ import annotations

import ast
import copy
import dataclasses
import io
import json
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.agent.compiled import AT_HOME, compile_node, compile_rules, on_a_node, read_rules
from healthcheck.checks.base import CHECKS
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.watch.nodeload import LOAD
from healthcheck.xid.xidtable import XidTable
from inventory.errors import UsageError
from inventory.model import Lifecycle, LifecycleState, Node, PortPlan
from provisioning.agent.bundle import build, code, modules
from provisioning.agent.layout import CODE, FILES, NODE, RULES, command, digest
from tests import packagedrules

PACKAGED = packagedrules.RULES
DOCUMENT = json.loads(json.dumps(compile_rules(PACKAGED)))
PLACES = {"file", "files", "origin_file", "overridden"}


def plain(value: Any) -> Any:
    """Without where it stood, of which only the name is told."""
    if isinstance(value, dict):
        return {key: plain(held) for key, held in value.items() if key not in PLACES}
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_what_was_compiled_says_all_that_the_yaml_said() -> None:
    again = read_rules(DOCUMENT)
    assert again.digest == PACKAGED.digest and len(again.rules) == len(PACKAGED.rules) > 200
    for made, rule in zip(again.rules, PACKAGED.rules, strict=True):
        assert dataclasses.replace(made, origin_file="", overridden=(), left_out="", disabled="") \
            == dataclasses.replace(rule, origin_file="", overridden=(), left_out="", disabled="")
        assert (made.left_out, made.disabled) == (rule.left_out, rule.disabled)
    assert plain(to_plain(again.skus)) == plain(to_plain(PACKAGED.skus))
    assert plain(to_plain(again.profiles)) == plain(to_plain(PACKAGED.profiles))
    assert isinstance(again.xids, XidTable)
    assert plain(to_plain(again.xids)) == plain(to_plain(PACKAGED.xids))
    assert compile_rules(again) == DOCUMENT


def test_where_rules_are_installed_on_the_head_is_not_told() -> None:
    assert str(packaged()) not in json.dumps(DOCUMENT)


def test_the_probes_of_every_profile_and_occasion_are_those_of_home_and_the_load_that_watch_reads() -> None:
    for own in (None, "unprivileged"):
        for occasion in ("", "timer", "gate"):
            home = PACKAGED.probe_set(45.0, profiles=(own,), occasion=(occasion,) if occasion else ())
            told = DOCUMENT["sets"][f"{own or ''}/{occasion}"]
            assert [DOCUMENT["probes"][name]
                    for name in told["probes"]] == [*home.to_json()["probes"], LOAD.to_json()]
            assert (told["seconds"], told.get("cpu_seconds")) == (home.seconds, home.cpu_seconds)


def test_on_a_node_what_needs_the_fleet_is_left_out_and_nothing_else() -> None:
    there = {rule.id: rule.left_out for rule in on_a_node(PACKAGED).rules}
    for rule in PACKAGED.rules:
        assert there[rule.id] == (rule.left_out or AT_HOME if rule.checked.fleet else rule.left_out)


def test_a_plug_ins_rule_is_judged_at_home_and_its_probes_are_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (rule,) = (rule for rule in PACKAGED.rules if rule.id == "host-swap")
    foreign = dataclasses.replace(rule.checked, name="site.own")
    own = dataclasses.replace(rule, id="site-own", check=foreign.name, own=foreign)
    ruleset = dataclasses.replace(PACKAGED, rules=(own,))
    document = compile_rules(ruleset)
    (read,) = read_rules(json.loads(json.dumps(document))).rules
    assert "site.own" not in CHECKS and read.left_out == "judged at home: its check is a plug-in's"
    assert document["sets"]["/timer"]["probes"] == ["host.swap", LOAD.id]


def damaged(document: Any, path: list[int], value: Any) -> Any:
    """The document with the value at some place replaced."""
    whole = copy.deepcopy(document)
    at = whole
    for step in path:
        keys = sorted(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
        if not keys:
            break
        key = keys[step % len(keys)]
        if not isinstance(at[key], (dict, list)) or not at[key] or step % 7 == 0:
            at[key] = value
            return whole
        at = at[key]
    return value


SMALL = dict(DOCUMENT, rules=DOCUMENT["rules"][:3],
             skus={name: DOCUMENT["skus"][name] for name in ("cpu-only", "hgx-h100")})


@settings(deadline=None)    # a ruleset is read, whose size is what it is
@given(path=st.lists(st.integers(0, 400), min_size=1, max_size=6),
       value=st.none() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({}))
def test_whatever_is_damaged_is_one_error_or_a_ruleset(path: list[int], value: Any) -> None:
    try:
        assert isinstance(read_rules(damaged(SMALL, path, value)), Ruleset)
    except UsageError as error:
        assert "install the agent again" in str(error) and "\n" not in str(error)


def test_a_node_is_told_of_itself_and_nothing_of_how_it_is_reached() -> None:
    node = Node("gpu001", "10.0.0.1", 2222, "admin", sku="hgx-h100",
                ports={"0000:18:00.0": PortPlan("storage", expect="down")}, identity_file=("/root/key",),
                unread=("mlx5_9",), lifecycle=Lifecycle(LifecycleState.BRINGUP, "somebody"))
    told = json.loads(json.dumps(compile_node(node, None, 300.0, "timer", "1")))
    assert not {"10.0.0.1", "admin", "/root/key", "somebody"} & set(
        json.dumps(told).replace('"', " ").split())
    read = from_plain(Node, told["node"])
    assert read == Node("gpu001", sku="hgx-h100", ports=node.ports, unread=("mlx5_9",),
                        lifecycle=Lifecycle(LifecycleState.BRINGUP))


def test_equal_inputs_are_equal_bytes_and_each_word_changes_the_digest() -> None:
    one, two = build(PACKAGED), build(load_ruleset([packaged()]))
    code.cache_clear()
    assert one == two == build(PACKAGED)
    node = Node("gpu001")
    made = one.of(node)
    assert (tuple(made.files) == FILES and made.digest == digest(made.files)
            and made.folder == made.digest[:12])
    others = [one.of(Node("gpu002")), one.of(node, period=60.0), one.of(node, occasion="gate"),
              one.of(node, default_sku="hgx-h100")]
    assert len({made.digest, *(other.digest for other in others)}) == 5
    assert made.digest != digest({**made.files, CODE: made.files[CODE] + b" "}) != digest(
        {**made.files, RULES: b"{}"})


def test_the_bundle_is_small_and_holds_python_alone() -> None:
    made = build(PACKAGED).of(Node("gpu001"))
    names = zipfile.ZipFile(io.BytesIO(made.files[CODE])).namelist()
    assert {name.rpartition(".")[2] for name in names} == {"py", "txt", "bin"} and len(names) < 300
    assert not [name for name in names
                if name.startswith(("provisioning", "healthcheck/cli", "inventory/importers",
                                    "inventory/cli"))]
    assert (sum(len(zlib.compress(data)) for data in made.files.values()) < 720_000
            and len(made.files[NODE]) < 1000)


BLOCKED = ("yaml", "click", "paramiko", "rich", "ClusterShell", "prometheus_client", "pynvml", "cryptography",
           "sqlite3", "pytest", "_yaml")
EVERYTHING = """
import importlib, sys, zipfile
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise AssertionError("loads " + name)
sys.meta_path.insert(0, Blocked())
sys.path.insert(0, {archive!r})
names = [name[:-3].replace("/", ".").removesuffix(".__init__") for name in zipfile.ZipFile({archive!r}).namelist() if name.endswith(".py")]
for name in names:
    importlib.import_module(name)
foreign = [name for name, module in sys.modules.items() if getattr(module, "__file__", None) and not module.__file__.startswith(
    ({archive!r}, sys.prefix + "/lib/python"))]
print(len(names), foreign, [name for name in sys.modules if "site-packages" in str(getattr(sys.modules[name], "__file__", ""))])
"""  # noqa: E501


def test_every_module_in_it_loads_in_an_empty_environment_where_all_that_is_foreign_is_blocked(
    tmp_path: Path,
) -> None:
    archive = tmp_path / CODE
    archive.write_bytes(code())
    script = EVERYTHING.format(blocked=BLOCKED, archive=str(archive))
    done = subprocess.run(["/usr/bin/python3", "-I", "-S", "-c", script], env={}, capture_output=True,
                          text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 100 and done.stdout.endswith("[] []\n")


def test_what_runs_before_the_python_is_known_to_judge_is_python_3_8() -> None:
    for path in modules(["healthcheck.agent.main"]).values():
        ast.parse(path.read_text(), feature_version=(3, 8))
    assert "healthcheck.judge.judge" not in modules(["healthcheck.agent.main"])
    assert command(textfile="/x") == ("/usr/bin/python3", "-I", "-S", "/opt/muster/current/muster.pyz", "run",
                                      "--textfile", "/x")
