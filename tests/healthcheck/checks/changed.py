"""The healthy machine with some files of one probe changed: another text, or None for a file that is not
there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from healthcheck.model.recording import FileCapture, Outcome, Recording
from tests.healthcheck import machine


def files(probe: str, texts: Mapping[str, str | Outcome | None]) -> Recording:
    """Paths may be given by their ends; one that fits no file is a new file. An Outcome in place of a text is
    how reading it ended."""
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


@st.composite
def spoilt(draw: st.DrawFn, probe: str) -> Recording:
    """One file of the probe, any of them, says anything else, or ends anywhere."""
    held = machine.captures()[probe].files
    path = draw(st.sampled_from(sorted(held)))
    whole = held[path].text
    return files(probe, {path: draw(st.one_of(st.text(max_size=60),
                                              st.integers(0, len(whole)).map(lambda end: whole[:end])))})
