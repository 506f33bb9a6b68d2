"""The inventory's key `cordon`, and each way to write it wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import InventoryError
from inventory.load import load_inventory, parse_with_origins
from inventory.model import CordonBy, InKubernetes, IsolationBackend
from tests.command import muster


def read(text: str) -> CordonBy | None:
    return parse_with_origins(f"version: 1\n{text}\nnodes:\n  gpu[1-2]:\n",
                              "/site/muster.yaml").inventory.cordon


@pytest.mark.parametrize(("text", "found"), [
    ("", None),
    ("cordon: slurm", CordonBy(IsolationBackend.SLURM)),
    ("cordon: {hostfile: bad-hosts}", CordonBy(IsolationBackend.HOSTFILE, "/site/bad-hosts")),
    ("cordon: {golden: /shared/good}", CordonBy(IsolationBackend.GOLDEN, "/shared/good")),
    ("cordon: {command: [site-cordon, --level, 02, 2]}",
     CordonBy(IsolationBackend.COMMAND, argv=("site-cordon", "--level", "02", "2"))),
    ("cordon: {command: [site-cordon], list: [bin/marks, all]}",
     CordonBy(IsolationBackend.COMMAND, argv=("site-cordon",), lists=("/site/bin/marks", "all"))),
    ("cordon: kubernetes", CordonBy(IsolationBackend.KUBERNETES, kubernetes=InKubernetes())),
    ("cordon: {kubernetes: {}}", CordonBy(IsolationBackend.KUBERNETES, kubernetes=InKubernetes())),
    ("cordon: {kubernetes: {config: kube/config, context: train, name: '{node}.example.org', condition: "
     "true}, seconds: 5}",
     CordonBy(IsolationBackend.KUBERNETES, seconds=5,
              kubernetes=InKubernetes("/site/kube/config", "train", "{node}.example.org", None, True))),
    ("cordon: {kubernetes: {label: example.org/machine}}",
     CordonBy(IsolationBackend.KUBERNETES, kubernetes=InKubernetes(label="example.org/machine"))),
    ("cordon:\n  command:\n  - bin/cordon\n  seconds: 2.5",
     CordonBy(IsolationBackend.COMMAND, argv=("/site/bin/cordon",), seconds=2.5)),
])
def test_a_site_chooses_one_way_and_paths_are_those_of_the_file(text: str, found: CordonBy | None) -> None:
    assert read(text) == found


WAYS = ("expected slurm, kubernetes, {hostfile: FILE}, {golden: FILE}, {kubernetes: {context: NAME}} "
        "or {command: [PROGRAM, ...], seconds: 30}")


@pytest.mark.parametrize(("text", "error"), [
    ("cordon:", f"/site/muster.yaml:2:8: cordon is empty, {WAYS}"),
    ("cordon: kubernetis", f"/site/muster.yaml:2:9: cordon is 'kubernetis', {WAYS}"),
    ("cordon: {kubernetes: train}", "/site/muster.yaml:2:22: cordon.kubernetes is 'train', expected "
                                    "{context: NAME}, config, name, label, condition"),
    ("cordon: {kubernetes: {contxt: a}}",
     "/site/muster.yaml:2:23: unknown key 'contxt' in cordon.kubernetes; did you mean context?"),
    ("cordon: {kubernetes: {context: 7}}",
     "/site/muster.yaml:2:32: cordon.kubernetes.context is the number 7, expected the name of a context"),
    ("cordon: {kubernetes: {name: gpu}}",
     "/site/muster.yaml:2:29: cordon.kubernetes.name is 'gpu', expected a node's name with {node} in it"),
    ("cordon: {kubernetes: {name: '{node}/x'}}",
     "/site/muster.yaml:2:29: cordon.kubernetes.name is '{node}/x', expected a node's name"),
    ("cordon: {kubernetes: {label: 'a b'}}",
     "/site/muster.yaml:2:30: cordon.kubernetes.label is 'a b', expected the name of a label, such as"),
    ("cordon: {kubernetes: {name: '{node}', label: a}}",
     "/site/muster.yaml:2:39: cordon.kubernetes.label and name exclude each other"),
    ("cordon: {kubernetes: {condition: yes please}}",
     "/site/muster.yaml:2:34: cordon.kubernetes.condition is 'yes please', expected true or false"),
    ("cordon: {kubernetes: {}, hostfile: a}",
     f"/site/muster.yaml:2:9: cordon names 2 ways to keep jobs away, {WAYS}"),
    ("cordon: [slurm]", f"/site/muster.yaml:2:9: cordon is a list, {WAYS}"),
    ("cordon: {}", f"/site/muster.yaml:2:9: cordon names 0 ways to keep jobs away, {WAYS}"),
    ("cordon: {seconds: 3}", f"/site/muster.yaml:2:9: cordon names 0 ways to keep jobs away, {WAYS}"),
    ("cordon: {hostfile: a, golden: b}",
     f"/site/muster.yaml:2:9: cordon names 2 ways to keep jobs away, {WAYS}"),
    ("cordon: {hostfil: a}",
     "/site/muster.yaml:2:10: unknown key 'hostfil' in cordon; did you mean hostfile?"),
    ("cordon: {golden: [a]}", "/site/muster.yaml:2:18: cordon.golden is a list, expected a file name"),
    ("cordon: {golden: 7}", "/site/muster.yaml:2:18: cordon.golden is the number 7, expected a file name"),
    ("cordon: {golden: a, seconds: 3}",
     "/site/muster.yaml:2:21: cordon.seconds goes with a command or kubernetes only"),
    ("cordon: {command: act --now}",
     "/site/muster.yaml:2:19: cordon.command is 'act --now', expected a list of a program and its words"),
    ("cordon: {command: []}",
     "/site/muster.yaml:2:19: cordon.command is a list, expected a list of a program and its words"),
    ("cordon: {command: [a], list: act}",
     "/site/muster.yaml:2:30: cordon.list is 'act', expected a list of a program and its words"),
    ("cordon: {golden: a, list: [b]}", "/site/muster.yaml:2:21: cordon.list goes with a command only"),
    ("cordon: {command: [a, '']}", "/site/muster.yaml:2:23: cordon.command is ''"),
    ("cordon: {command: [a, [b]]}", "/site/muster.yaml:2:23: cordon.command is a list"),
    ("cordon: {command: [a], seconds: 0}",
     "/site/muster.yaml:2:33: cordon.seconds is the number 0, expected a number above 0 and at most 600"),
    ("cordon: {command: [a], seconds: .nan}", "/site/muster.yaml:2:33: cordon.seconds is"),
    ("cordon: {command: [a], seconds: true}", "/site/muster.yaml:2:33: cordon.seconds is true"),
    ("cordon: {command: [a], seconds: }", "/site/muster.yaml:2:33: cordon.seconds is empty"),
    ("cordons: slurm", "/site/muster.yaml:2:1: unknown key 'cordons' in the inventory; did you mean cordon?"),
])
def test_what_is_no_choice_is_one_line_with_its_place(text: str, error: str) -> None:
    with pytest.raises(InventoryError) as caught:
        read(text)
    assert str(caught.value).startswith(error) and str(caught.value).isprintable()


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.just(
    "slurm"),
                    lambda inner: st.lists(inner,
                                           max_size=3)
                    | st.dictionaries(st.sampled_from(["hostfile", "golden", "command", "kubernetes",
                                                       "config", "name", "seconds", "x"]), inner)))
def test_no_value_raises_anything_but_one_line(value: object) -> None:
    try:
        read(f"cordon: {json.dumps(value)}")
    except InventoryError as problem:
        assert str(problem).isprintable()


def test_check_and_show_say_what_keeps_jobs_away(tmp_path: Path) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text("version: 1\ncordon: {command: [bin/act, 'a b'], seconds: 5}\nnodes: {gpu1: }\n")
    assert f"  cordon     command {tmp_path}/bin/act 'a b' (at most 5 s)\n" in muster(
        "inventory", "check", home=tmp_path).stdout
    assert f"  cordon: command {tmp_path}/bin/act 'a b' (at most 5 s)\n" in muster(
        "inventory", "show", "gpu1", home=tmp_path).stdout
    shown = json.loads(muster("inventory", "show", "gpu1", "--format", "json", home=tmp_path).stdout)
    assert shown["cordon"] == {"by": "command", "path": None, "argv": [f"{tmp_path}/bin/act", "a b"]}
    file.write_text(
        "version: 1\ncordon: {kubernetes: {config: k, context: train, name: '{node}.x'}}\nnodes: {gpu1: }\n")
    assert f"  cordon     kubernetes config {tmp_path}/k, context train, nodes as {{node}}.x\n" in muster(
        "inventory", "check", home=tmp_path).stdout
    file.write_text("version: 1\ncordon: slurm\nnodes: {gpu1: }\n")
    assert "  cordon     slurm\n" in muster("inventory", "check", home=tmp_path).stdout
    file.write_text("version: 1\nnodes: {gpu1: }\n")
    assert "cordon" not in muster("inventory", "check", home=tmp_path).stdout
    assert json.loads(muster("inventory", "show", "gpu1", "--format", "json", home=tmp_path).stdout)[
        "cordon"] is None


def test_an_edit_of_the_file_keeps_the_choice(tmp_path: Path) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text("version: 1\ncordon: {golden: good}      # by rack\nnodes:\n  gpu1: {}\n")
    done = muster("inventory", "lifecycle", "set", "gpu1", "rma", "--owner", "vendor", home=tmp_path)
    assert "cordon: {golden: good}      # by rack\n" in file.read_text(), done.stderr
    assert load_inventory(file).cordon == CordonBy(IsolationBackend.GOLDEN, str(tmp_path / "good"))
