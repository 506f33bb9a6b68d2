"""Templates of boot scripts and seeds: data that a site may replace, rendered in a sandbox where each value
has to be quoted.

A template sees values only: no function, no attribute of ours, no arithmetic. Every value that it prints must
have gone through one of the filters below, which quote for what the text is read by; one that has not is
refused, so that no value can become an instruction to an installer, a shell or iPXE.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound, Undefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inventory.text import clean
from provisioning.osinstall.base import OsError

SUFFIX = ".j2"
_MOST_BYTES = 1024 * 1024
_IPXE = re.compile(r"[A-Za-z0-9_.:/@=,;%+~?-]+(?:&[A-Za-z0-9_.:/@=,;%+~?-]+)*")


def is_ipxe_word(text: str) -> bool:
    """Whether iPXE takes the text for one word and nothing else."""
    return _IPXE.fullmatch(text) is not None


class _Quoted(str):
    """A text that a filter has quoted."""

    __slots__ = ()


def _data(value: Any) -> _Quoted:
    """A value for YAML or JSON: text in double quotes, a list in brackets. JSON is a subset of YAML 1.2."""
    return _Quoted(json.dumps(_plain(value), ensure_ascii=True).replace("\x7f", "\\u007f"))


def _plain(value: Any) -> Any:
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()      # Jinja's own way to say which one
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _shell(value: Any) -> _Quoted:
    """One word of a POSIX shell."""
    return _Quoted(shlex.quote(_line(value, "\n")))


def _preseed(value: Any) -> _Quoted:
    """The value of a debconf question: the rest of one line."""
    text = _line(value)
    if text.endswith("\\") or text != text.strip():
        raise SecurityError(f"{clean(text, 60)!r} cannot stand in a preseed file")
    return _Quoted(text)


def _ipxe(value: Any) -> _Quoted:
    """Words of iPXE, which has no quotes: a value with any character that it acts on is refused."""
    words = [_line(one) for one in (value if isinstance(value, (list, tuple)) else [value])]
    for word in words:
        if not is_ipxe_word(word):
            raise SecurityError(f"{clean(word, 60)!r} cannot stand in a script of iPXE")
    return _Quoted(" ".join(words))


def _words(value: Any) -> str:
    """A list's texts with blanks between them; still to be quoted."""
    return " ".join(_line(one) for one in value)


def _line(value: Any, allowed: str = "") -> str:
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if not isinstance(value, str) and type(value) is not int:
        raise SecurityError(f"a {type(value).__name__} is no text")
    text = str(value)
    if any(not char.isprintable() and char not in allowed for char in text):
        raise SecurityError(f"{clean(text, 60)!r} has control characters")
    return text


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "yaml": _data, "json": _data, "sh": _shell, "preseed": _preseed, "ipxe": _ipxe, "words": _words}


def _printed(value: Any) -> Any:
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if isinstance(value, _Quoted) or type(value) is int:
        return value
    raise SecurityError(
        f"{clean(value, 40)!r} is printed without a quoting filter ({', '.join(sorted(_FILTERS))})")


class _Environment(ImmutableSandboxedEnvironment):
    """Without arithmetic, which can make texts of any size, and without calls."""

    intercepted_binops = frozenset(("*", "**", "+", "-", "/", "//", "%"))
    intercepted_unops = frozenset(("+", "-"))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        raise SecurityError(f"templates do not calculate ({operator})")

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        raise SecurityError(f"templates do not calculate ({operator})")

    def is_safe_callable(self, obj: Any) -> bool:
        return False


class Templates:
    """The templates of several folders, of which a later one wins by name."""

    def __init__(self, folders: Sequence[Path]) -> None:
        environment = _Environment(
            loader=FileSystemLoader([str(folder) for folder in reversed(folders)]), undefined=StrictUndefined,
            autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
            finalize=_printed)
        environment.globals.clear()
        environment.filters.clear()
        environment.filters.update(_FILTERS)
        self._environment = environment
        self._looked = ", ".join(str(folder) for folder in reversed(folders))

    def render(self, names: Sequence[str], values: Mapping[str, Any]) -> str:
        """The text of the first template of these names. Raises OsError with the template's file and line."""
        try:
            template = self._environment.select_template([f"{name}{SUFFIX}" for name in names])
            parts, size = [], 0
            for part in template.generate(values):
                parts.append(part)
                size += len(part)
                if size > _MOST_BYTES:
                    raise OsError(f"{template.filename}: it renders over {_MOST_BYTES} bytes")
        except TemplateNotFound as problem:
            missing = clean(problem.name or names[-1], 120)
            raise OsError(f"no template {missing} in {clean(self._looked, 300)}") from None
        except (TemplateError, TypeError, ValueError, RecursionError, UnicodeError) as problem:
            raise OsError(f"{_place(problem, names)}: {clean(problem, 300)}") from None
        return "".join(parts)


def _place(problem: BaseException, names: Sequence[str]) -> str:
    """Where in a template it went wrong: the innermost line that is one of a template."""
    found = names[-1] + SUFFIX
    line = getattr(problem, "lineno", None)
    if line is not None:
        return f"{clean(getattr(problem, 'filename', None) or found, 200)}:{line}"
    trace = problem.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.endswith(SUFFIX):
            found = f"{clean(file, 200)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
