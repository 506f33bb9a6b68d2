"""The subset of a Python module that another one needs: a tenth of pynvml, for the NVML reader.

pynvml (nvidia-ml-py) is one module of some 2400 functions, structures and numbers. Compiling all of it costs
a node more than the rest of its run. The subset is found by names in the text: parsing all of pynvml would
cost the head as much.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# What can begin a statement at the left margin; a bracket, quote or comment continues the one before.
_START = re.compile(r"^(?!(?:else|elif|except|finally)\b)[A-Za-z_@]", re.MULTILINE)
_DEFINED = re.compile(
    r"^(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*=(?!=)|^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(\w+)[ \t]*$",
    re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_COMPOSED = re.compile(r"['\"]([A-Za-z_]\w*_|[A-Za-z_]\w*%s\w*)['\"]")
# pynvml makes a class of each of these.
_ALWAYS = ("NVML_ERROR_",)


def subset(library: str, reader: str) -> str:
    """The part of the library's text that `reader` names, directly or not, with the copyright notice.

    Names that the reader composes are found by their constant part ("NVML_MEMORY_ERROR_TYPE_",
    "NVML_%s_ECC"). A library that cannot be divided is returned whole.
    """
    begins = [match.start() for match in _START.finditer(library)]
    if not begins:
        return library
    ends = [*begins[1:], len(library)]
    parts = list(_statements(library[begin:end] for begin, end in zip(begins, ends, strict=True)))
    defined: dict[str, list[int]] = {}
    kept: set[int] = set()
    for at, part in enumerate(parts):
        names = ["".join(found) for found in _DEFINED.findall(part)]
        for name in names:
            defined.setdefault(name, []).append(at)
        if not names:
            kept.add(at)    # a statement that runs on loading, or an import of many names
    composed = [re.compile(re.escape(text).replace("%s", r"\w+"))
                for text in (*_ALWAYS, *_COMPOSED.findall(reader))]
    wanted = {name for name in defined if any(pattern.match(name) for pattern in composed)}
    wanted.update(_WORD.findall(reader), *(_WORD.findall(parts[at]) for at in kept))
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        for at in defined.get(name, ()):
            if at not in kept:
                kept.add(at)
                wanted.update(word for word in _WORD.findall(parts[at]) if word not in seen)
    text = library[:begins[0]] + "".join(parts[at] for at in sorted(kept))
    try:
        compile(text, "pynvml", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return library
    return text


def _statements(parts: Iterable[str]) -> Iterable[str]:
    """The parts; an incomplete statement is joined to the next one: a decorator, or text in triple quotes."""
    pending = ""
    for part in parts:
        pending += part
        alone = pending[0] == "@" and not _DEFINED.search(pending)
        if not (alone or pending.count('"""') % 2 or pending.count("'''") % 2):
            yield pending
            pending = ""
    if pending:
        yield pending
