"""Rules of what containers' configurations name: CDI specifications, runtimes, the toolkit; and of shims."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.container_config import parse_spec
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.test_docker import HUNG
from tests.healthcheck.checks.verdicts import cohort, findings_of, status_findings, verdict
from tests.tries import tries

ETC, RUN = "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"
LIB = "/usr/lib/x86_64-linux-gnu"


def spec(devices: dict[str, list[str]], kind: str = "nvidia.com/gpu",
         mounts: tuple[str, ...] = ()) -> dict[str, Any]:
    """A specification as an object (CDI specification, SPEC.md)."""
    return {"cdiVersion": "0.5.0", "kind": kind, "devices": [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}}
        for name, paths in devices.items()],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": [
                "nvidia-cdi-hook", "create-symlinks", "--link", "libcuda.so.1::/usr/lib/libcuda.so"]}],
            "mounts": [{"containerPath": path, "hostPath": path, "options": ["ro", "bind"]}
                       for path in mounts]}}


def seen(specs: dict[str, dict[str, Any]], gone: tuple[str, ...] = (), **changes: Capture) -> Any:
    """A node with these specifications and without these paths."""
    texts = {path: yaml.safe_dump(one) for path, one in specs.items()}
    described = {path: {"gone": [each for each in gone if each in text], "unseen": []}
                 for path, text in texts.items()}
    return machine.recording(container_cdi=machine.done(**texts), container_config=machine.container_config(
        *machine.TOOLKIT, **{ETC: {"gone": [], "unseen": []}, **described}), **changes)


EIGHT = {str(n): [f"/dev/nvidia{n}"] for n in range(8)}
LIBS = tuple(f"{LIB}/{name}.so.550.54.15" for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"))
OLD = tuple(path.replace("550.54.15", "535.161.08") for path in LIBS)


@pytest.mark.parametrize(("gone", "mounts", "words"), [
    ((), LIBS, ""), (("/dev/nvidia99",), LIBS, ""),
    (("/dev/nvidia7",), LIBS,
     f"{ETC}: not on the node: /dev/nvidia7, expected there, as the specification names them"),
    (("/usr/bin/nvidia-cdi-hook",), LIBS,
     f"{ETC}: not on the node: /usr/bin/nvidia-cdi-hook, expected there, as the specification names them"),
    (("/run/nvidia-persistenced/socket",), ("/run/nvidia-persistenced/socket",),
     f"{ETC}: not on the node: /run/nvidia-persistenced/socket, expected there, as the specification "
     f"names them"),
    (LIBS, LIBS,
     f"{ETC}: not on the node: {', '.join(LIBS)}, expected there, as the specification names them"),
])
def test_what_a_specification_gives_to_containers_is_on_the_node(gone: tuple[str, ...],
                                                                 mounts: tuple[str, ...], words: str) -> None:
    result = verdict("cdi-paths", seen({ETC: spec(EIGHT, mounts=mounts)}, gone))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


def test_libraries_of_a_driver_that_was_replaced_are_one_finding_and_that_of_the_driver() -> None:
    stale = seen({ETC: spec(EIGHT, mounts=OLD)}, OLD)
    assert verdict("cdi-paths", stale).status is Status.PASS
    assert findings_of(verdict("cdi-driver", stale)).startswith(f"CDI: libraries of 535.161.08 in {ETC}")


def test_a_fresh_specification_below_var_run_goes_before_a_stale_one_below_etc() -> None:
    both = seen({ETC: spec(EIGHT, mounts=OLD), RUN: spec(EIGHT, mounts=LIBS)})
    assert verdict("cdi-driver", both).status is Status.PASS
    other = seen({ETC: spec(EIGHT, mounts=LIBS), RUN: spec(EIGHT, mounts=OLD)})
    assert RUN in findings_of(verdict("cdi-driver", other))
    assert verdict("cdi-devices", both).status is Status.PASS


def test_a_device_that_two_files_of_a_folder_define_is_named() -> None:
    result = verdict("cdi-devices",
                     seen({ETC: spec(EIGHT), "/etc/cdi/old.yaml": spec({"0": ["/dev/nvidia0"]})}))
    assert (findings_of(result)
            == ("nvidia.com/gpu=0: defined in /etc/cdi/nvidia.yaml and in /etc/cdi/old.yaml: no container "
                "gets it, "
                "expected in one file of a folder"))
    other = seen({ETC: spec(EIGHT), "/etc/cdi/nic.yaml": spec({"0": ["/dev/net/tun"]}, "vendor.example/nic")})
    assert verdict("cdi-devices", other).status is Status.PASS


def test_a_device_that_is_named_by_the_uuid_of_a_gpu_that_left_is_a_finding() -> None:
    uuid = "GPU-0f1e2d3c-0000-1111-2222-333344445555"
    nvml = machine.nvml(gpu3={"uuid": machine.reading(uuid)})
    named = {ETC: spec({uuid: ["/dev/nvidia3"]})}
    assert verdict("cdi-devices", seen(named, gpu_nvml=nvml)).status is Status.PASS
    assert (findings_of(verdict("cdi-devices", seen(named)))
            == f"{uuid}: named in {ETC}, and no GPU of the node, expected a GPU of the node")


@pytest.mark.parametrize("rule", ["cdi-paths", "cdi-devices"])
def test_a_specification_in_another_form_or_that_was_not_read_is_unknown_and_none_is_skipped(
        rule: str) -> None:
    flow = machine.done(**{ETC: "{kind: nvidia.com/gpu, devices: [{name: a}]}\n"})
    assert verdict(rule, machine.recording(container_cdi=flow)).status is Status.UNKNOWN
    denied = Capture(Outcome.DONE, files={ETC: FileCapture(Outcome.DENIED, "")})
    assert verdict(rule, machine.recording(container_cdi=denied)).status is Status.UNKNOWN
    assert verdict(rule, machine.recording(container_config=HUNG)).status is Status.UNKNOWN
    assert verdict(rule, machine.recording(container_cdi=machine.done())).status is Status.SKIPPED


def test_paths_that_only_root_sees_are_unknown() -> None:
    hidden = machine.container_config(**{ETC: {"gone": [], "unseen": ["/dev/nvidia3"]}})
    assert verdict("cdi-paths", machine.recording(container_config=hidden)).status is Status.UNKNOWN


WORD = st.text("ab09-_.", max_size=6).map("d{}".format)
PATH = st.builds("/dev/{}".format, WORD)
NODE = st.builds(lambda path, host: {"path": path, **({"hostPath": host} if host else {})}, PATH,
                 st.none() | PATH)
EDITS = st.fixed_dictionaries({}, optional={
    "deviceNodes": st.lists(NODE, min_size=1, max_size=3),
    "env": st.lists(st.just("A=b"), min_size=1, max_size=2),
    "mounts": st.lists(st.builds(lambda path: {"containerPath": "/x", "hostPath": path, "options": ["ro"]},
                                 PATH), min_size=1, max_size=3),
    "hooks": st.lists(st.builds(lambda path: {"args": ["a", "b::/c"], "hookName": "createContainer",
                                              "path": path}, PATH), min_size=1, max_size=2)})


@settings(deadline=None, max_examples=tries(50))
@given(devices=st.dictionaries(WORD, EDITS, min_size=1, max_size=3), edits=EDITS)
def test_a_specification_says_the_same_in_json_and_in_yaml(devices: dict[str, Any],
                                                           edits: dict[str, Any]) -> None:
    document = {"cdiVersion": "0.6.0", "containerEdits": edits, "devices": [
        {"containerEdits": each, "name": name} for name, each in devices.items()], "kind": "nvidia.com/gpu"}
    if not edits:
        del document["containerEdits"]
    expected = {node.get("hostPath") or node["path"] for one in (edits, *devices.values())
                for section in ("deviceNodes", "mounts", "hooks") for node in one.get(section, ())}
    for text in (json.dumps(document), yaml.safe_dump(document),
                 "---\n" + yaml.safe_dump(document, sort_keys=False)):
        assert parse_spec(text) == ("nvidia.com/gpu", tuple(devices), frozenset(expected)), text


@settings(deadline=None)
@given(text=st.text(max_size=200) | st.text("-: {}[]\n\"'kindevsa/", max_size=120))
def test_no_text_upsets_the_parser(text: str) -> None:
    found = parse_spec(text)
    assert found is None or found[0]


# Runtimes and the toolkit

def runtimes(*rows: list[Any], path: str = "/etc/containerd/config.toml", **files: str) -> Any:
    return machine.recording(container_config=machine.container_config(*machine.TOOLKIT,
                                                                       **{path: {"programs": list(rows)}}))


def test_a_runtime_whose_program_is_gone_is_named_with_its_file() -> None:
    result = verdict("container-runtime-there", runtimes(
        ["nvidia", "/usr/bin/nvidia-container-runtime", False], ["runc", "/usr/bin/runc", True]))
    assert (findings_of(result)
            == ("nvidia of /etc/containerd/config.toml: /usr/bin/nvidia-container-runtime is not on "
                "the node, "
                "expected there, as the configuration names it"))
    assert verdict("container-runtime-there", runtimes(["runc", "/usr/bin/runc", True])).status is Status.PASS


def test_a_program_that_cannot_be_seen_hides_no_other_that_is_gone() -> None:
    assert verdict("container-runtime-there", runtimes(["kata", "/opt/kata", None])).status is Status.UNKNOWN
    both = verdict("container-runtime-there",
                   runtimes(["kata", "/opt/kata", None], ["nvidia", "/opt/nv", False]))
    assert both.status is Status.FAIL and "nvidia of" in findings_of(both)


def test_a_configuration_that_was_not_read_is_unknown_and_none_at_all_is_skipped() -> None:
    held = Capture(Outcome.DONE, files={"/etc/containerd/config.toml": FileCapture(Outcome.DENIED, "")})
    assert verdict("container-runtime-there",
                   machine.recording(container_config=held)).status is Status.UNKNOWN
    none = machine.done(toolkit="{}")
    assert verdict("container-runtime-there",
                   machine.recording(container_config=none)).status is Status.SKIPPED
    assert verdict("container-runtime-there",
                   machine.recording(container_config=HUNG)).status is Status.UNKNOWN


def test_a_toolkit_of_which_only_the_configuration_is_left_is_a_finding() -> None:
    left = machine.container_config()
    result = verdict("container-toolkit", machine.recording(container_config=left))
    assert findings_of(result).startswith(
        "container toolkit: /etc/nvidia-container-runtime/config.toml is left over")
    base = machine.container_config("nvidia-ctk", "nvidia-container-runtime")
    assert verdict("container-toolkit", machine.recording(container_config=base)).status is Status.PASS
    none = machine.recording(container_config=left, container_cdi=machine.done())
    assert verdict("container-toolkit", none).status is Status.SKIPPED
    assert verdict("container-toolkit", machine.recording(container_config=HUNG)).status is Status.UNKNOWN


# Versions

def test_the_node_with_another_toolkit_is_named_and_one_without_leaves_the_comparison() -> None:
    def toolkit(version: str) -> Any:
        text = (f"NVIDIA Container Toolkit CLI version {version}\ncommit: "
                f"53b24618a542025b108239fe602e66e912b7d6e2\n")
        return machine.recording(container_toolkit=Capture(Outcome.DONE, exit=0, text=text))

    missing = machine.recording(container_toolkit=Capture(Outcome.MISSING))
    odd = machine.recording(container_toolkit=Capture(Outcome.DONE, exit=0, text="version 1\n"))
    found = cohort("fleet-container-toolkit", *[toolkit("1.17.4")] * 3, toolkit("1.14.3"), missing, odd)
    assert [status for status, _ in found] == [Status.PASS] * 3 + [Status.FAIL, Status.SKIPPED,
                                                                   Status.UNKNOWN]
    assert found[3][1] == "container toolkit version: 1.14.3, expected 1.17.4, as on 3 of 4 nodes"


def test_the_node_with_another_containerd_is_named_and_one_that_does_not_use_it_leaves_the_comparison(
) -> None:
    def containerd(version: str, used: int = 0) -> Any:
        text = (f"Client:\n  Version:  {version}\n\nServer:\n  Version:  {version}\n  Revision: 7\n  "
                f"UUID: 5c\n")
        nerdctl = Capture(Outcome.MISSING) if used else Capture(Outcome.DONE, exit=0)
        return machine.recording(containerd_version=Capture(Outcome.DONE, exit=0, text=text),
                                 containerd_nerdctl=nerdctl)

    found = cohort("fleet-containerd-version", *[containerd("1.7.12")] * 3, containerd("1.6.20"),
                   containerd("1.6.20", 1))
    assert [status for status, _ in found] == [Status.PASS] * 3 + [Status.FAIL, Status.SKIPPED]
    assert found[3][1] == "containerd version: 1.6.20, expected 1.7.12, as on 3 of 4 nodes"


# Shims

def tasks(text: str, outcome: Outcome = Outcome.DONE, exit_status: int = 0, words: str = "") -> Any:
    head = f"exit {exit_status}{': ' + words if words else ''}\n"
    files = {"/run/containerd/io.containerd.runtime.v2.task/moby": FileCapture(outcome, head + text)}
    return machine.recording(containerd_tasks=Capture(Outcome.DONE, seconds=0.1, files=files))


LISTED = "TASK    PID      STATUS    \nt1      0        UNKNOWN\nt2      17462    RUNNING\n"


@pytest.mark.parametrize(("recording", "status", "words"), [
    (tasks(LISTED), Status.FAIL, "t1 of moby: its shim does not answer containerd, expected an answer"),
    (tasks(LISTED.replace("UNKNOWN", "STOPPED")), Status.PASS, ""),
    (tasks(LISTED.splitlines()[0]), Status.PASS, ""),
    (tasks(""), Status.UNKNOWN, ""), (tasks(LISTED + "what is this\n"), Status.UNKNOWN, ""),
    (tasks("", exit_status=1, words='ctr: failed to dial "/run/containerd/containerd.sock"'),
     Status.UNKNOWN, ""),
    (tasks(LISTED, Outcome.TIMEOUT), Status.UNKNOWN, ""),
    (machine.recording(containerd_tasks=Capture(Outcome.MISSING)), Status.SKIPPED, ""),
    (machine.recording(containerd_tasks=HUNG), Status.UNKNOWN, ""),
])
def test_a_shim_that_does_not_answer_containerd_is_named(recording: Any, status: Status, words: str) -> None:
    assert status_findings("container-shim-hangs", recording) == (status, words)
