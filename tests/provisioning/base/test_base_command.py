"""`muster bringup base`: which nodes may be renamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from inventory.model import Node
from provisioning.base import send
from provisioning.base.report import BaseReport
from provisioning.cli.base import base


def test_only_a_node_of_which_it_is_certain_that_no_job_is_there_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixed: list[set[str]] = []

    def asked(nodes: Sequence[Node], transport: object, desired: object, **more: Any) -> Iterator[BaseReport]:
        fixed.append(more["fixed"])
        yield from (BaseReport(node.name) for node in nodes)

    monkeypatch.setattr(send, "make", asked)
    monkeypatch.setattr(send, "look", asked)
    monkeypatch.setenv("PATH", str(tmp_path))       # no scheduler here
    path = tmp_path / "m.yaml"
    path.write_text("version: 1\nnodes:\n  a: {}\n  b: {lifecycle: maintenance}\n  c: {lifecycle: bringup}\n")
    report = CliRunner().invoke(base, ["a,b,c", "--apply", "-i", str(path)])
    assert "b keeps its host name" in report.output
    CliRunner().invoke(base, ["a,b,c", "-i", str(path)])
    assert fixed == [{"a", "b"}, {"a", "b"}]
