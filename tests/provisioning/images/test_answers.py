"""What nodes and their runtimes answer, which may be anything: read as what was measured, or unknown."""

from __future__ import annotations

import ast
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Node
from inventory.transport.base import Failure, Reply, Stage
from inventory.transport.local import LocalTransport
from provisioning.images import send
from provisioning.images.model import ImageState, NodeImage, PullEnd
from provisioning.images.onnode.children import last_line, masked
from provisioning.images.send import PullBounds, RuntimeChoice
from provisioning.images.wanted import from_words
from tests.testbed.heldanswer import at_its_answer, is_free

DIGEST, OTHER = ("sha256:" + digit * 64 for digit in "12")
REFERENCE = f"host.site/team/app:1.0@{DIGEST}"
NODE = Node("n1", python=sys.executable)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner,
                                                                                max_size=4), max_leaves=12)


def reply(answer: Any) -> Reply:
    return Reply("n1", zlib.compress(json.dumps(answer).encode()), None, 0.0, 1.0)


@given(st.binary(max_size=200) | JSON.map(lambda one: zlib.compress(json.dumps(one).encode())))
def test_a_body_of_anything_else_is_unknown(body: bytes) -> None:
    found = send.read(Reply("n1", body, None, 0.0, 1.0), ["a", "b"], pulling=True)
    assert [one.state for one in found.images] == [ImageState.UNKNOWN] * 2


@given(JSON, JSON, JSON, JSON, JSON)
def test_no_answer_of_a_node_is_present_unless_it_says_so(state: Any, others: Any, why: Any, did: Any,
                                                          seconds: Any) -> None:
    given_ = {"state": state, "others": others, "why": why, "did": did, "seconds": seconds}
    (one,) = send.read(reply({"runtime": "x", "why": "", "images": [given_]}), ["a"], pulling=True).images
    assert one.state is not ImageState.PRESENT or state == "present"
    assert one.why.isprintable() and len(one.why) <= 300 and 0 <= one.seconds < 1e7


def test_what_a_node_says_is_kept_and_escape_codes_are_not() -> None:
    answer = {"runtime": "docker\x1b[31m", "why": "", "images": [
        {"state": "other", "others": [OTHER, "x", 7, ""], "why": "a\nb\x1b]0;t\x07", "did": "failed",
         "seconds": 2}]}
    found = send.read(reply(answer), ["a"], pulling=True)
    assert found.images == (NodeImage("a", ImageState.OTHER, (OTHER, ""), r"a\nb\x1b]0;t\x07",
                                      PullEnd.FAILED, 2.0),)
    assert found.runtime == r"docker\x1b[31m"


def test_a_node_that_ended_early_and_one_that_was_not_reached_are_unknown_with_the_reason() -> None:
    early = send.read(reply({"runtime": "docker", "why": "docker: it broke", "images": []}),
                      ["a", "b"], pulling=True)
    assert {(one.state, one.why) for one in early.images} == {(ImageState.UNKNOWN, "docker: it broke")}
    lost = send.read(Reply("n1", None, Failure(Stage.DEADLINE, "cut"), 0.0, 1.0), ["a"], pulling=True)
    assert lost.images[0].why == "deadline: cut; a pull that was at work there is ended"
    assert send.read(Reply("n1", None, Failure(Stage.CONNECT, "refused"), 0.0, 1.0), ["a"],
                     pulling=True).images[0].why == "connect: refused"


@pytest.mark.parametrize("text", [
    "Get https://puller:hunter2@host/v2/: EOF", "Get https://s3/blob?X-Amz-Signature=hunter2&x=1: EOF",
    "header Authorization: Basic aHVudGVyMg==",
    "token=hunter2", 'password: "hunter2"', "got Bearer hunter2.aHVudGVyMg",
])
def test_what_may_be_a_secret_is_taken_out_of_messages(text: str) -> None:
    assert "hunter2" not in masked(text) and "aHVudGVyMg" not in masked(text)


def test_the_last_line_of_a_client_is_shown_without_its_colours() -> None:
    assert last_line("a\r\x1b[32mlayer\x1b[0m done\n\n") == "layer done" and last_line("\n") == ""


def test_what_runs_on_a_node_is_python_3_8() -> None:
    for path in send._PARTS:
        ast.parse(path.read_text(), feature_version=(3, 8))


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def looked(folder: Path, kind: str, reference: str = REFERENCE) -> NodeImage:
    (folder / "socket").touch()
    choice = RuntimeChoice(kind, str(folder / "socket"), "default", path=f"{folder}:/usr/bin:/bin",
                           lock=str(folder / "lock"))
    (found,) = send.look([NODE], from_words([reference]), LocalTransport(), choice)
    return found.images[0]


CRI = {"images": [  # as crictl 1.26 prints an answer of ListImages (cri-api)
    {"id": "sha256:0", "repoTags": ["host.site/team/app:1.0"], "repoDigests": [f"host.site/team/app@{OTHER}"],
     "size": "1", "uid": None, "username": "",
     "spec": None, "pinned": False},
    {"id": "sha256:1", "repoTags": [], "repoDigests": [f"host.site/team/app@{DIGEST}"], "size": "1"}]}


def test_what_the_kubelets_runtime_lists_is_read_by_digest_and_tag(tmp_path: Path) -> None:
    program(tmp_path, "crictl",
            f"case \"$*\" in *images*) echo '{json.dumps(CRI)}';; *inspecti*) ;; *) exit 1;; esac")
    found = looked(tmp_path, "cri")
    assert (found.state, found.others) == (ImageState.PRESENT, (OTHER,))
    gone = looked(tmp_path, "cri", f"host.site/team/app:1.0@sha256:{'3' * 64}")
    assert (gone.state, gone.others) == (ImageState.OTHER, (OTHER,))


def test_the_kubelets_runtime_pulls_and_is_read_again(tmp_path: Path) -> None:
    listed = json.dumps({"images": CRI["images"][1:]})
    program(tmp_path, "crictl", f"""case "$*" in
*" pull "*) echo "$*" > {tmp_path}/pulled;; *imagefsinfo*) echo '{{"status": {{"fsId": {{"mountpoint": "{tmp_path}"}}}}}}';;
*" images "*) [ -e {tmp_path}/pulled ] && echo '{listed}' || echo '{{"images": []}}';; esac""")  # noqa: E501
    choice = RuntimeChoice("cri", str(tmp_path / "socket"), path=f"{tmp_path}:/usr/bin:/bin",
                           lock=str(tmp_path / "lock"))
    (tmp_path / "socket").touch()
    (found,) = send.pull([NODE], from_words([REFERENCE]), LocalTransport(), choice,
                         bounds=PullBounds(keep_percent=0))
    assert (found.images[0].state, found.images[0].end) == (ImageState.PRESENT, PullEnd.PULLED), found
    assert (tmp_path / "pulled").read_text().endswith(f"pull host.site/team/app@{DIGEST}\n")
    with at_its_answer(lambda transport: send.pull([NODE], from_words([REFERENCE]), transport, choice)):
        assert is_free(tmp_path / "lock")      # whoever has the answer may begin the next at once


def test_an_image_without_a_digest_that_has_the_tag_is_another_one(tmp_path: Path) -> None:
    row = {"Repository": "host.site/team/app", "Tag": "1.0", "Digest": "<none>", "ID": "sha256:9"}
    program(tmp_path, "docker", f"echo '{json.dumps(row)}'")
    found = looked(tmp_path, "docker")
    assert (found.state, found.others) == (ImageState.OTHER, ("",))


@pytest.mark.parametrize(("status", "unpacked", "why"), [
    ("incomplete (1/2)", "false", "its content is incomplete (1/2)"),
    ("complete (2/2)", "false", "it is not unpacked")])
def test_what_containerd_has_a_part_of_is_incomplete(status: str, unpacked: str, why: str,
                                                     tmp_path: Path) -> None:
    name = f"host.site/team/app@{DIGEST}"
    program(tmp_path, "ctr", f"""case "$*" in
*ls*) echo '{name} application/vnd.oci.image.manifest.v1+json {DIGEST} 1.0 KiB linux/amd64 -  ';;
*check*) echo '{name} application/vnd.oci.image.manifest.v1+json {DIGEST} {status} 1.0 B/2.0 B {unpacked} ';; esac""")  # noqa: E501
    found = looked(tmp_path, "containerd")
    assert (found.state, found.why) == (ImageState.INCOMPLETE, why)


@pytest.mark.parametrize(("text", "why"), [
    ("echo 'no json'", "docker printed something else than JSON objects"),
    ("echo '[1]'", "docker printed something else"),
    ("echo denied >&2; exit 1", "docker: denied"), ("exit 3", "docker: exit 3"),
    ("yes '{}'", "docker printed over 4194304 bytes"),
    ("kill -9 $$", "docker: exit -9"),
])
def test_a_runtime_that_cannot_be_read_is_unknown_and_never_absent(text: str, why: str,
                                                                   tmp_path: Path) -> None:
    program(tmp_path, "docker", text)
    found = looked(tmp_path, "docker")
    assert found.state is ImageState.UNKNOWN and found.why.startswith(why)


def test_a_client_that_ends_well_and_has_pulled_nothing_has_failed(tmp_path: Path) -> None:
    program(tmp_path, "docker", f"case \"$*\" in *info*) echo {tmp_path};; esac")
    (tmp_path / "socket").touch()
    choice = RuntimeChoice("docker", str(tmp_path / "socket"), path=f"{tmp_path}:/usr/bin:/bin",
                           lock=str(tmp_path / "lock"))
    (found,) = send.pull([NODE], from_words([REFERENCE]), LocalTransport(), choice,
                         bounds=PullBounds(keep_percent=0))
    (one,) = found.images
    assert (one.state, one.end, one.why) == (ImageState.ABSENT, PullEnd.FAILED,
                                             "the pull ended well, and the digest is not there")
