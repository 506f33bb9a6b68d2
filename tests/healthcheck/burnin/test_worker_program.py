"""The programs that are sent to nodes, and what tasks may set in them."""

from __future__ import annotations

import ast
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin import params, program
from healthcheck.burnin.model import TaskKind
from healthcheck.burnin.onnode import environment
from healthcheck.burnin.wire import TOKEN
from tests.healthcheck.collector.test_joined import undefined

TEXTS = {"agent": program.agent_text, "nursery": program.nursery_text}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_python_3_8_needs_nothing_of_ours_and_has_each_name_once(name: str) -> None:
    tree = ast.parse(TEXTS[name](), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {module for module in imported
                if module.partition(".")[0] in ("healthcheck", "inventory", "provisioning")}
    assert ("torch" in imported) == (name == "nursery")
    top = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    top += [target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
            if isinstance(target, ast.Name)]
    assert len(top) == len(set(top)), sorted(each for each in top if top.count(each) > 1)
    assert ("main" if name == "agent" else "nursery") in top


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_defines_all_that_it_uses(name: str) -> None:
    assert not undefined(TEXTS[name]())


def test_torch_is_not_imported_before_the_nursery_can_say_that_it_is_not_there() -> None:
    tree = ast.parse(program.nursery_text())
    assert not [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
                if alias.name.startswith("torch")]


def test_every_module_of_the_folder_is_in_one_of_the_texts() -> None:
    folder = Path(program.__file__).parent / "onnode"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == {"agent", "writebw",
                                                                          *program._NURSERY}


def test_each_node_is_given_a_token_of_its_own_and_no_one_the_secret_that_it_is_made_of() -> None:
    built = program.build(run="r", secret="s3cret-of-the-run", nodes=["n1", "n2"], hosts=["10.0.0.1"], port=7,
                          python=["python3"])
    one, two = (built.of(node).extras[TOKEN].decode() for node in ("n1", "n2"))
    assert one != two and two not in str(built.of("n1")) and built.of("n9").extras == {}
    assert one not in str(built) and "s3cret" not in built.loader + one + two
    size, _, packed = built.payload.partition(b"\n")
    assert len(packed) == int(size)
    text = zlib.decompress(packed)
    assert json.loads(text.split(b"\0")[1])["port"] == 7
    assert all(word.encode() not in text for word in (one, two, "s3cret"))


def test_every_kind_has_parameters_and_every_length_changes_only_those() -> None:
    assert set(params.PARAMS) == {kind.value for kind in TaskKind}
    for length in params.LENGTHS:
        for kind in TaskKind:
            told = params.params_for(kind.value, length)
            assert params.completed(kind.value, told, gpu=True).keys() == params.PARAMS[kind.value].keys()
    assert all(type(on_gpu) is type(on_cpu) for known in params.PARAMS.values()
               for on_gpu, on_cpu, _ in known.values())


def test_a_whole_number_does_where_a_number_is_wanted() -> None:
    assert params.params_for("allreduce", "quick", run_s=3)["run_s"] == 3
    assert type(params.completed("allreduce", {"run_s": 3}, gpu=False)["run_s"]) is float


@pytest.mark.parametrize(("told", "said"), [
    ({"bites": 3}, "'bites' is no parameter of allreduce, expected one of bytes, "),
    ({"bytes": "3"}, "bytes of allreduce is '3', expected a number of at least 0"),
    ({"bytes": -1}, "bytes of allreduce is -1, expected a number"),
    ({"bytes": True}, "bytes of allreduce is True"),
    ({"run_s": float("nan")}, "run_s of allreduce is nan"),
    ({"dtype": 3}, "dtype of allreduce is 3, expected text"),
])
def test_a_wrong_parameter_is_named_with_what_was_expected(told: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        params.completed("allreduce", told, gpu=True)
    assert str(raised.value).startswith(said)
    with pytest.raises(ValueError, match="length 'long', expected one of screen, quick, standard, soak"):
        params.params_for("copy", "long")


def test_what_was_inherited_for_nccl_and_gloo_is_scrubbed_and_named() -> None:
    found = {"NCCL_P2P_DISABLE": "1", "TORCH_NCCL_BLOCKING_WAIT": "1", "GLOO_SOCKET_IFNAME": "x", "RANK": "3",
             "PATH": "/bin", "LANG": "C"}
    assert environment.scrubbed(found) == ["GLOO_SOCKET_IFNAME", "NCCL_P2P_DISABLE", "RANK",
                                           "TORCH_NCCL_BLOCKING_WAIT"]
    assert found == {"PATH": "/bin", "LANG": "C"}


def test_what_a_task_asks_for_is_set_over_the_defaults_and_reported() -> None:
    found: dict[str, str] = {}
    told = environment.set_for(found, {"NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "=eth9"}, nccl=True,
                               interface="eth0")
    assert found == told
    assert (told["NCCL_ALGO"], told["NCCL_SOCKET_IFNAME"], told["GLOO_SOCKET_IFNAME"],
            told["NCCL_DEBUG"]) == ("Ring", "=eth9", "eth0", "INFO")
    assert "NCCL_DEBUG" not in environment.set_for({}, {}, nccl=False, interface="")


@given(st.text(min_size=1, max_size=40))
def test_a_task_can_set_nothing_that_decides_which_code_runs(name: str) -> None:
    for asked in (name, "LD_" + name, "PYTHON" + name, "PATH", "LD_PRELOAD", "NCCL_NET_PLUGIN",
                  "NCCL_TUNER_PLUGIN", "NCCL_CONF_FILE"):
        if not asked.startswith(environment.SETTABLE) or asked in environment.NEVER:
            with pytest.raises(ValueError, match="a task may not set"):
                environment.set_for({}, {asked: "1"}, nccl=True, interface="")


def test_an_interface_is_found_by_its_address() -> None:
    assert (environment.interface_of("127.0.0.1") == environment.interface_of("127.5.5.5")
            == environment.interface_of("::ffff:127.0.0.1") == "lo")
    assert environment.interface_of("203.0.113.77") == environment.interface_of("2001:db8::77") == ""
