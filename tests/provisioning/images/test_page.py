"""Images of a fleet as a table and as a document, compared with golden files."""

from __future__ import annotations

import json
from pathlib import Path

from provisioning.images.model import ImageState, NodeImage, NodeImages, PullEnd, unknown
from provisioning.images.page import ImagesReport, document, lines
from provisioning.images.wanted import WantedImage
from tests.documents import validate

GOLDEN = Path(__file__).parents[2] / "golden"
DIGESTS = ["sha256:" + digit * 64 for digit in "123"]
WANTED = (WantedImage("pytorch", "nvcr.io/nvidia/pytorch", "24.10-py3", DIGESTS[0], 21 << 30, ("hgx-h100",)),
          WantedImage("dcgm", "nvcr.io/nvidia/cloud-native/dcgm", "", DIGESTS[1], labels={"use": "train"}))


def report() -> ImagesReport:
    """Nodes in every state, after a pull."""
    def node(name: str, first: NodeImage, *more: NodeImage, runtime: str = "containerd") -> NodeImages:
        return NodeImages(name, (first, *more), runtime)

    there = NodeImage("dcgm", ImageState.PRESENT, end=PullEnd.THERE)
    nodes = [node(f"gpu{at:03d}", NodeImage("pytorch", ImageState.PRESENT, end=PullEnd.PULLED,
                                            seconds=60.0 + at), there) for at in range(1, 6)]
    nodes += [
        node("gpu006", NodeImage("pytorch", ImageState.PRESENT, (DIGESTS[2],), end=PullEnd.PULLED,
                                 seconds=700.0), there),
        node("gpu007", NodeImage("pytorch", ImageState.OTHER, (DIGESTS[2], ""), "docker: EOF", PullEnd.FAILED,
                                 12.0), there, runtime="docker"),
        node("gpu008", NodeImage("pytorch", ImageState.ABSENT,
                                 why="ended, because only 900 MiB were left free at /var/lib/containerd",
                                 end=PullEnd.NO_SPACE, seconds=30.0), there),
        node("gpu009",
             NodeImage("pytorch", ImageState.INCOMPLETE, why="its content is incomplete (3/9)"), there),
        unknown("gpu010", ["pytorch", "dcgm"], "connect: nothing listens"),
        unknown("gpu011", ["pytorch"], "not asked: a job is on it", left="a job is on it"),
        NodeImages("login1", ())]
    return ImagesReport(WANTED, tuple(nodes), 1_790_000_000.0, {"gpu011": "a job is on it"})


def test_the_table_is_the_golden_one() -> None:
    assert "\n".join(lines(report())) + "\n" == (GOLDEN / "images.txt").read_text()


def test_the_document_is_the_golden_one_and_as_its_schema_says() -> None:
    made = document(report())
    validate(made, "images-1")
    assert made == json.loads((GOLDEN / "images.json").read_text())


def test_the_exit_code_is_of_the_worst_that_was_measured_and_nothing_measured_is_no_pass() -> None:
    one = {state: NodeImages("n", (NodeImage("a", state),)) for state in ImageState}

    def code(*states: ImageState) -> int:
        return ImagesReport(WANTED, tuple(one[state] for state in states), 0.0).code

    assert code(ImageState.PRESENT) == 0 and code(ImageState.PRESENT, ImageState.UNKNOWN) == 3
    assert {code(state, ImageState.UNKNOWN)
            for state in (ImageState.ABSENT, ImageState.OTHER, ImageState.INCOMPLETE)} == {1}
    assert code() == 3 and ImagesReport(WANTED, (NodeImages("n", ()),), 0.0).code == 3
