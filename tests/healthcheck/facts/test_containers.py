"""What Docker's client and files of containers say, read from any text without a crash, and never as more
than was said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.container import STATES, parse_cdi, up_seconds
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.model.recording import Capture, Outcome
from healthcheck.ruleset import plugins
from tests.healthcheck import machine
from tests.tries import tries

plugins.load()
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20),
                    lambda inner: st.lists(inner, max_size=4)
                    | st.dictionaries(st.sampled_from(["id", "container", "image", "state", "status",
                                                       "repository", "tag", "digest", "conditions"])
                                      | st.text(max_size=5), inner, max_size=6), max_leaves=12)
COMMANDS = {"containers": "docker_ps", "docker_images": "docker_images", "container_gpus": "container_cli",
            "container_run": "container_run", "containerd": "containerd_version",
            "cri_ready": "containerd_cri", "docker": "docker_info"}


def built(name: str, capture: Capture) -> Any:
    key = COMMANDS.get(name, {"cdi": "container_cdi", "pyxis": "container_slurm"}.get(name, ""))
    return build_fact(FACTS[name], Captures(machine.recording("gpu001", **{key: capture})))


def printed(text: str) -> Capture:
    return Capture(Outcome.DONE, exit=0, text=text)


@pytest.mark.parametrize("name", sorted(COMMANDS))
@settings(max_examples=tries(40))
@given(value=JSON, text=st.text(max_size=200), exit_status=st.integers(-9, 255), stderr=st.text(max_size=60))
def test_no_text_of_a_tool_upsets_a_builder(name: str, value: Any, text: str, exit_status: int,
                                            stderr: str) -> None:
    for out in (text, json.dumps(value), json.dumps({"status": value})):
        found = built(name, Capture(Outcome.DONE, exit=exit_status, text=out, stderr=stderr))
        assert not (isinstance(found, Unmeasured) and "could not be read" in found.reason
                    and name not in ("cri_ready",)), found


@pytest.mark.parametrize("name", ["cdi", "pyxis"])
@given(text=st.text(max_size=300))
def test_no_text_of_a_file_upsets_a_builder(name: str, text: str) -> None:
    path = "/etc/cdi/a.yaml" if name == "cdi" else "/etc/slurm/plugstack.conf"
    found = built(name, machine.done(**{path: text}))
    assert not (isinstance(found, Unmeasured) and "could not be read" in found.reason), found


ROWS = "".join(json.dumps(machine.container(f"job{n}", status=f"Up {n + 2} hours")) + "\n" for n in range(3))


@pytest.mark.parametrize("name", ["containers", "docker_images"])
def test_a_list_that_is_cut_at_any_byte_is_whole_only_after_a_whole_line(name: str) -> None:
    text = ROWS if name == "containers" else "".join(json.dumps(machine.image(f"tool:{n}")) + "\n"
                                                     for n in range(3))
    for end in range(len(text) + 1):
        found = built(name, printed(text[:end]))
        whole = not isinstance(found, Partial)
        assert whole == (end == 0 or text[end - 1] == "\n" or text[end:end + 1] == "\n")
        listed = (found if whole else found.value).listed
        assert len(listed) == text[:end].count("\n") + (whole and end > 0 and text[end - 1] != "\n")
        cut = built(name, Capture(Outcome.TRUNCATED, text=text[:end]))
        assert isinstance(cut, Partial)


@given(count=st.integers(0, 10**7),
       unit=st.sampled_from(["second", "minute", "hour", "day", "week", "month", "year"]), many=st.booleans())
def test_uptimes_are_read_as_the_client_writes_them(count: int, unit: str, many: bool) -> None:
    words = f"Up {count} {unit}{'s' if many else ''}"
    if count < 10**6:
        assert up_seconds(words) == up_seconds(words + " (healthy)") >= count
    else:
        with pytest.raises(ValueError, match="Up"):
            up_seconds(words)


@pytest.mark.parametrize(("words", "seconds"), [
    ("Up Less than a second", 0), ("Up About a minute", 60), ("Up About an hour", 3600),
    ("Up 2 weeks (Paused)", 14 * 86400),
])
def test_uptimes_in_words(words: str, seconds: int) -> None:
    assert up_seconds(words) == seconds


@given(text=st.text(max_size=200))
def test_no_other_text_is_an_uptime_or_a_specification_of_gpus(text: str) -> None:
    if "kind" not in text:
        assert parse_cdi(text) is None
    if not text.startswith("Up "):
        with pytest.raises(ValueError):
            up_seconds(text)


@given(state=st.sampled_from(STATES), status=st.text(max_size=40), name=st.text(max_size=300))
def test_names_and_words_of_containers_are_bounded_and_clean(state: str, status: str, name: str) -> None:
    found = built("containers", printed(json.dumps(machine.container(name, state, status)) + "\n"))
    for container in (found.value if isinstance(found, Partial) else found).listed:
        assert len(container.name) <= 130 and not any(ord(letter) < 32 or letter in "\x7f\x9b\u202e"
                                                      for letter in container.name)


def test_a_specification_counts_gpus_and_not_mig_or_control_devices() -> None:
    paths = ("nvidia0", "nvidia1", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap3",
             "nvidia-modeset")
    text = "devices:\n" + "".join(f"  - path: /dev/{path}\n" for path in paths) + "kind: \"nvidia.com/gpu\"\n"
    assert parse_cdi(text) == (2, "")
    assert parse_cdi(text.replace("nvidia.com/gpu", "nvidia.com/gds")) is None
