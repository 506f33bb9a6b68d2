"""Options that several commands have, as one decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CommandDecorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def stacked(*options: CommandDecorator) -> CommandDecorator:
    """Puts the options on a command in this order, in which its help shows them."""
    def put(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return put
