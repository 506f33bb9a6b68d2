"""An agent that has no descriptor or process left for the collector says so, and its snapshot is no node's
fault."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import Any

import pytest

from healthcheck.agent import recorder


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
@pytest.mark.parametrize(("module", "name"), [(os, "memfd_create"), (subprocess, "Popen")])
def test_what_the_agent_lacks_is_named(monkeypatch: pytest.MonkeyPatch, module: Any, name: str,
                                       number: int) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, name, fail)
    answer = recorder.look(b"", {"seconds": 1.0}, {})
    assert (answer.stage == "python" and errno.errorcode[number] in answer.reason
            and "Limit...=" in answer.reason)
