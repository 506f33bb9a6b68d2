"""A node's note of its last step, as the node's own program reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provisioning.remediate.onnode import operations


@pytest.mark.parametrize("key", ["message", "said"])        # the second in notes of earlier versions
def test_the_note_of_a_step_is_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    note = tmp_path / "note"
    monkeypatch.setattr(operations, "NOTE", str(note))
    note.write_text(json.dumps({"line": "x-7", "step": "reboot", "ok": True, "touched": True,
                                key: "it restarts"}))
    assert operations.taken("reboot", "x-7", 0.1) == {      # it is not taken again
        "line": "x-7", "step": "reboot", "ok": True, "touched": True, "message": "it restarts"}
