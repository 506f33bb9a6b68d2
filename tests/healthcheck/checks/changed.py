"""The healthy machine with another capture of one probe: other files, or another answer of a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from healthcheck.model.recording import FileCapture, Outcome, Recording
from tests.healthcheck import machine


def files(probe: str, texts: Mapping[str, str | Outcome | None]) -> Recording:
    """Another text of each file, or None for one that is not there. Paths may be given by their ends; one
    that fits no file is a new file. An Outcome in place of a text is how reading it ended."""
    held = machine.captures()[probe]
    found = dict(held.files)
    for end, text in texts.items():
        for path in [path for path in found if path.endswith(end)] or [end]:
            if text is None:
                del found[path]
            else:
                found[path] = (FileCapture(text)
                               if isinstance(text, Outcome) else FileCapture(Outcome.DONE, text))
    return machine.recording(**{probe: replace(held, files=found)})


def printed(probe: str, text: str, **more: Any) -> Recording:
    """Another answer of one command; `more` are other fields of its Capture, such as `exit` and `stderr`."""
    return machine.recording(
        **{probe.replace(".", "_", 1): replace(machine.captures()[probe], text=text, **more)})


@st.composite
def spoilt(draw: st.DrawFn, probe: str) -> Recording:
    """One file of the probe, any of them, says anything else, or ends anywhere."""
    held = machine.captures()[probe].files
    path = draw(st.sampled_from(sorted(held)))
    whole = held[path].text
    return files(probe, {path: draw(st.one_of(st.text(max_size=60),
                                              st.integers(0, len(whole)).map(lambda end: whole[:end])))})
