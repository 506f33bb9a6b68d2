"""The interface for progress reports of long work."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol


class Progress(Protocol):
    """Receives every node that is done; used as a context manager around the work."""

    def done(self, name: str, reached: bool) -> None:
        """One more node is done."""
        ...

    def __enter__(self) -> Progress: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None: ...
