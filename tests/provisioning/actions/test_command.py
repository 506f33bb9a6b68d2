"""A site's own command: what it is asked and may answer; what it does not say is not assumed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.store.marks import CordonMark
from provisioning.actions import command
from provisioning.actions.base import ActionError, Holder, NodeHold, RebootState
from provisioning.actions.command import CommandBackend
from tests.testbed.processes import alive
from tests.testbed.sshd import wait_until
from tests.tries import tries


def program(folder: Path, body: str, seconds: float = 20) -> CommandBackend:
    (folder / "act").write_text(f"#!{sys.executable} -IS\nimport json, os, signal, sys\n{body}\n")
    (folder / "act").chmod(0o755)
    return CommandBackend([str(folder / "act"), "--site", "a b"], seconds)


def answering(folder: Path, answer: object) -> CommandBackend:
    text = answer if isinstance(answer, str) else json.dumps({"schema": "muster.action/1", **answer
                                                              })  # type: ignore[dict-item]
    (folder / "answer").write_text(text, "utf-8", "surrogateescape")
    return program(
        folder, f"sys.stdin.read()\nsys.stdout.buffer.write(open({str(folder / 'answer')!r}, 'rb').read())")


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(ActionError) as caught:
        act()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600
    return str(caught.value)


def test_it_is_asked_by_one_document_without_a_shell(tmp_path: Path) -> None:
    site = program(tmp_path,
                   f"open({str(tmp_path / 'asked')!r}, 'a').write(json.dumps([sys.argv[1:], "
                   "json.load(sys.stdin)]) + '\\n')\n"
                   f"print('{{\"schema\": \"muster.action/1\", \"done\": true}}')")
    site.isolate("gpu007", "muster#12: fan $(id)")
    site.release("gpu007")
    site.reboot(["gpu008", "gpu007"], "driver")
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked == [
        [["--site", "a b"],
         {"schema": "muster.action/1", "action": action, "nodes": nodes, "reason": reason, "number": number}]
        for action, nodes, reason, number in (
            ("isolate", ["gpu007"], "muster#12: fan $(id)", 12), ("release", ["gpu007"], "", None),
            ("reboot", ["gpu007", "gpu008"], "driver", None))]


def test_what_it_says_of_each_node_is_taken(tmp_path: Path) -> None:
    site = answering(tmp_path,
                     {
                         "nodes": {
                             "a": {"holder": "us", "reason": "muster#12: fan", "busy": True},
                             "b": {"holder": "nobody"}, "c": {"holder": "absent", "busy": None},
                             "d": {
                                 "holder": "others", "reason": "muster#3: of another\nstore \x1b[31m",
                                 "busy": False, "more": 1}, "not asked for": 7}})
    assert site.held(["a", "b", "c", "d"]) == {
        "a": NodeHold(Holder.US, "muster#12: fan", CordonMark("", 12), True), "b": NodeHold(Holder.NO_ONE),
        "c": NodeHold(Holder.ABSENT),
        "d": NodeHold(Holder.OTHERS, "muster#3: of another\\nstore \\x1b[31m", None, False)}


@pytest.mark.parametrize(
    ("answer", "error"),
    [("", "it is empty, expected one JSON document"), ("ok\n", "'ok\\n' is no JSON document"),
     ("\udcff", "is no JSON document"), ("[" * 100_000, "is no JSON document"),
     ('{"schema": "muster.action/1", "nodes": {"gpu1": {"holder": "nobody", "busy": NaN}}}',
      "is no JSON document"), ('{"schema": "muster.action/1", "nodes": {}} {}', "is no JSON document"),
     ("[]", 'it has no "schema": "muster.action/1"'),
     ('{"nodes": {"gpu1": {"holder": "nobody"}}}', 'it has no "schema": "muster.action/1"'),
     ({}, 'it has no "nodes", expected {"nodes": {"gpu007": {"holder": "nobody"}}}'),
     ({"nodes": ["gpu1"]}, 'it has no "nodes"'),
     ({"nodes": {"gpu2": {"holder": "nobody"}}},
      'it does not mention gpu1, expected {"holder": "nobody"}, us, others or absent'),
     ({"nodes": {"gpu1": None}}, "it does not mention gpu1"),
     ({"nodes": {"gpu1": {}}}, "the holder of gpu1 is 'None', expected nobody, us, others, absent"),
     ({"nodes": {"gpu1": {"holder": "free"}}}, "the holder of gpu1 is 'free'"),
     ({"nodes": {"gpu1": {"holder": ["us"]}}}, "the holder of gpu1 is"),
     ({"nodes": {"gpu1": {"holder": "us", "reason": "fan"}}},
      "we hold gpu1 with the reason 'fan', expected one that begins with our mark"),
     ({"nodes": {"gpu1": {"holder": "us", "reason": None}}}, "the reason of gpu1 is 'None', expected text"),
     ({"nodes": {"gpu1": {"holder": "nobody", "busy": 0}}},
      "busy of gpu1 is '0', expected true, false or null")])
def test_an_answer_that_says_less_or_other_than_it_must_is_an_error_and_never_a_free_node(
    tmp_path: Path, answer: object, error: str,
) -> None:
    said = refused(lambda: answering(tmp_path, answer).held(["gpu1"]))
    assert said.startswith(f"{tmp_path}/act: its reply cannot be used: ") and error in said


@pytest.mark.parametrize(("answer", "error"), [
    ({"done": False, "reason": "gpu1 is\nmine"}, "act: isolate was not done: gpu1 is\\nmine"),
    ({"done": False}, "act: isolate was not done: no reason given"),
    ({}, "\"done\" is 'None', expected true, or false with a \"reason\""),
    ({"done": 1}, "\"done\" is '1'"),
    ({"done": False, "reason": 7}, "\"done\" is 'False'"),
])
def test_an_action_is_done_only_where_the_command_says_so(tmp_path: Path, answer: object, error: str) -> None:
    assert error in refused(lambda: answering(tmp_path, answer).isolate("gpu1", "muster#1: x"))


def test_since_when_a_node_is_up_is_known_only_where_it_is_said(tmp_path: Path) -> None:
    site = answering(
        tmp_path, {"nodes": {"a": {"booted": 1.5e9, "rebooting": True}, "b": {}, "c": {"booted": None}}})
    assert site.boots(
        ["a", "b", "c"]) == {"a": RebootState(1.5e9, True), "b": RebootState(None), "c": RebootState(None)}
    for wrong in ({"booted": -1}, {"booted": True}, {"booted": "now"}, {"booted": 10 ** 400},
                  {"booted": 1, "rebooting": 1}):
        assert "of a is" in refused(lambda wrong=wrong: answering(tmp_path, {"nodes": {"a": wrong}}).boots([
            "a"]))  # type: ignore[misc]


def test_a_command_that_fails_or_is_none_is_one_line(tmp_path: Path) -> None:
    failing = program(tmp_path, "print('\\n\\x1b[31mno such cluster\\nmore', file=sys.stderr)\nsys.exit(3)")
    assert refused(
        lambda: failing.held(["a"])) == f"{tmp_path}/act: failed (exit 3): \\x1b[31mno such cluster"
    assert (refused(lambda: program(tmp_path, "os.kill(os.getpid(), 9)").held(["a"]))
            == f"{tmp_path}/act: failed (exit -9): it printed nothing")
    missing = CommandBackend([str(tmp_path / "none")])
    assert (refused(lambda: missing.held(["a"])) == f"{tmp_path}/none: cannot be run: No such file or "
                                                    "directory; see the key cordon of the inventory")


@pytest.mark.parametrize(
    "body", ["signal.pause()", "os.close(1)\nos.close(2)\nsignal.pause()", "sys.exit(0)"])
def test_at_its_limit_the_command_and_all_that_it_started_are_killed(tmp_path: Path, body: str) -> None:
    site = program(tmp_path, f"""
read, write = os.pipe()
if os.fork() == 0:
    open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))
    os.write(write, b'.')
    signal.pause()
os.read(read, 1)
{body}""", seconds=1.5)
    began = time.monotonic()
    assert (refused(lambda: site.held(["a"]))
            == f"{tmp_path}/act: did not end within 1.5 s; it and its children were killed")
    assert time.monotonic() - began < 10
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())), what="the end of its child")


def test_what_it_leaves_behind_when_it_ends_well_is_killed_too(tmp_path: Path) -> None:
    site = program(tmp_path, f"""
if os.fork() == 0:
    os.closerange(0, 3)
    signal.pause()
open({str(tmp_path / 'pid')!r}, 'w').write(open('/proc/self/task/%d/children' % os.getpid()).read())
print('{{"schema": "muster.action/1", "done": true}}')""")
    site.release("a")
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())), what="the end of its child")


def test_a_flood_is_cut_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_OUTPUT", 100_000)
    site = program(tmp_path, "while True:\n    os.write(1, b'x' * 65536)\n    os.write(2, b'x' * 65536)")
    assert refused(lambda: site.held(["a"])) == f"{tmp_path}/act: printed over 100000 bytes"


def test_a_question_that_is_not_read_stops_nothing_and_a_long_one_arrives_whole(tmp_path: Path) -> None:
    nodes = [f"gpu{at:06}" for at in range(30_000)]
    whole = program(tmp_path,
                    "os.write(2, b'x' * 200_000)\n"
                    "nodes = json.load(sys.stdin)['nodes']\n"
                    "print(json.dumps({'schema': 'muster.action/1', 'nodes': {node: {'holder': 'nobody'} "
                    "for node in nodes}}))")
    assert set(whole.held(nodes)) == set(nodes)
    deaf = program(tmp_path, "os.close(0)\nprint('{\"schema\": \"muster.action/1\", \"nodes\": {}}')")
    assert "it does not mention gpu000000" in refused(lambda: deaf.held(nodes))


def test_its_descriptors_are_closed_again(tmp_path: Path) -> None:
    site = answering(tmp_path, {"done": True})
    site.release("a")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        site.release("a")
    # fewer: what an earlier test left has been collected meanwhile
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


# any answer

ANY = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
                       | st.sampled_from(["nobody", "us", "others", "absent", "muster#1: x"]),
                   lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                       st.sampled_from(["schema", "nodes", "gpu1", "holder", "reason", "busy", "done",
                                        "booted", "rebooting"]), inner, max_size=5))
NODE = st.fixed_dictionaries(
    {}, optional={"holder": ANY, "reason": ANY, "busy": ANY, "booted": ANY, "rebooting": ANY})


@settings(max_examples=tries(400), deadline=None)
@given(
    st.binary(max_size=60) | ANY.map(lambda any_: json.dumps(any_).encode()) | st.builds(
        lambda node: json.dumps(
            {"schema": "muster.action/1", "nodes": {"gpu1": node}, "done": node.get("busy")}).encode(), NODE))
def test_no_answer_raises_anything_but_one_line_or_frees_a_node_that_it_does_not_call_free(
    data: bytes,
) -> None:
    def run(argv: object, question: bytes, seconds: float) -> bytes:
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_run", run)
        site = CommandBackend(["act"])
        for act in (lambda: site.held(["gpu1"]), lambda: site.boots(["gpu1"]), lambda: site.release("gpu1")):
            try:
                found: Any = act()
            except ActionError as problem:
                assert str(problem).isprintable() and len(str(problem)) < 400
                continue
            for held in (found or {}).values():
                if isinstance(held, NodeHold):
                    said = json.loads(data)["nodes"]["gpu1"]
                    assert (held.holder.value == said["holder"]
                            and (held.number is not None) == (held.holder is Holder.US))
                    assert held.busy is None or held.busy is said["busy"]
