"""Makes values of frozen dataclasses, of which a sweep makes hundreds of thousands."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def made(kind: type[T], fields: dict[str, Any]) -> T:
    """`kind(**fields)` of a frozen dataclass, of which every field must be given.

    Its own __init__ sets fields one by one through object.__setattr__, which is most of what hundreds of
    links and GPUs of 75 fields cost.
    """
    instance = object.__new__(kind)
    object.__setattr__(instance, "__dict__", fields)
    finish = getattr(kind, "__post_init__", None)
    if finish is not None:
        finish(instance)
    return instance
