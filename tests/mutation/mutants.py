"""Small changes of Python source, each of which a test should notice: a comparison turned, a number moved, a
condition negated. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import CodeType
from typing import Any

_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One change: where, what, and the code of the function that has it."""

    function: str
    line: int
    what: str
    code: CodeType


def sites(source: str, members: Mapping[str, tuple[str, ...]]) -> list[tuple[str, int, str]]:
    """What can be changed in a module, in order: the function, the line and the change. `members` are those
    of enumerations, by name."""
    return [(".".join(path), line, what) for function, path in _functions(ast.parse(source))
            for line, what, _ in _changes(function, members)]


def mutant(source: str, filename: str, members: Mapping[str, tuple[str, ...]], number: int) -> Mutant | None:
    """The change at this place of `sites`; None where the function cannot be told from another of its
    name."""
    tree = _without_overloads(ast.parse(source))
    each = ((path, change) for function, path in _functions(tree) for change in _changes(function, members))
    path, (line, what, change) = next(islice(each, number, None))
    change()
    code = _code(compile(ast.fix_missing_locations(tree), filename, "exec"), path)
    return Mutant(".".join(path), line, what, code) if code is not None else None


def _without_overloads(tree: ast.Module) -> ast.Module:
    """The module without the forms that only a type checker reads, so that each name in it has its code
    alone."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.body = [one for one in node.body if not (isinstance(one, _FUNCTIONS) and any(
                isinstance(by, ast.Name) and by.id == "overload" for by in one.decorator_list))]
    return tree


def _functions(tree: ast.Module) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    for node in tree.body:
        if isinstance(node, _FUNCTIONS):
            yield node, (node.name,)
        elif isinstance(node, ast.ClassDef):
            yield from ((each, (node.name, each.name)) for each in node.body if isinstance(each, _FUNCTIONS))


def _code(module: CodeType, path: tuple[str, ...]) -> CodeType | None:
    for name in path:
        found = [each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == name]
        if len(found) != 1:     # a property and its setter, an overload
            return None
        (module,) = found
    return module


Change = tuple[int, str, Callable[[], None]]


def _changes(function: ast.AST, members: Mapping[str, tuple[str, ...]]) -> Iterator[Change]:
    """What can be changed of a function, in the order of its nodes; nothing of messages, annotations, and
    what fails for errors of ours."""
    for node in _nodes(function):
        yield from _of_node(node, members)


def _nodes(function: ast.AST) -> Iterator[ast.AST]:
    for node in getattr(function, "body", ()):
        yield from _below(node)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)) or (isinstance(node, ast.keyword)
                                                                    and node.arg == "strict"):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _below(each)


def _of_node(node: ast.AST, members: Mapping[str, tuple[str, ...]]) -> Iterator[Change]:
    line: int = getattr(node, "lineno", 0)
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            other = _COMPARISONS[type(operator)]
            yield line, f"{type(operator).__name__} -> {other.__name__}", _setter(node.ops, at, other())
    elif isinstance(node, ast.BoolOp):
        other_ = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield line, f"{type(node.op).__name__} -> {other_.__name__}", _assign(node, "op", other_())
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and not _text(node):
        turned = ast.Sub if isinstance(node.op, ast.Add) else ast.Add
        yield line, f"{type(node.op).__name__} -> {turned.__name__}", _assign(node, "op", turned())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield line, f"{node.value} -> {not node.value}", _assign(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield line, f"{node.value} -> {node.value + 1}", _assign(node, "value", node.value + 1)
        if isinstance(node.value, int) and node.value >= 4:
            yield line, f"{node.value} -> {node.value // 2}", _assign(node, "value", node.value // 2)
    elif (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
          and node.attr in members.get(node.value.id, ())):
        known = members[node.value.id]
        swapped = known[(known.index(node.attr) + 1) % len(known)]
        yield line, f"{node.attr} -> {swapped}", _assign(node, "attr", swapped)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield line, f"{node.func.id} -> {_CALLS[node.func.id]}", _assign(node.func, "id",
                                                                         _CALLS[node.func.id])
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield line, "condition negated", _assign(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.comprehension):
        for at, test in enumerate(node.ifs):
            yield test.lineno, "filter dropped", _setter(node.ifs, at, ast.Constant(True))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield line, "call dropped", _assign(node, "value", _unasked(node.value))
    elif isinstance(node, ast.AugAssign):
        yield line, "addition dropped", _assign(node, "value", _nothing(node))


def _unasked(call: ast.Call) -> ast.expr:
    """What is left of a dropped call: of `super().method()` the `super()`, without which a function no longer
    knows its class, and cannot be put in the place of the one that runs."""
    asked = call.func.value if isinstance(call.func, ast.Attribute) else None
    return asked if isinstance(asked, ast.Call) and ast.unparse(asked) == "super()" else ast.Constant(None)


def _nothing(node: ast.AugAssign) -> ast.expr:
    """What adds nothing: of lists an empty one, else 0."""
    return ast.List([], ast.Load()) if isinstance(node.value, (ast.List, ast.ListComp)) else ast.Constant(0)


def _text(node: ast.BinOp) -> bool:
    """Whether strings, or lists and tuples, are joined: no one can take them from each other."""
    sides = (node.left, node.right)
    return any(isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.IfExp))
               or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               or (isinstance(side, ast.BinOp) and _text(side)) for side in sides)


def _setter(held: list[Any], at: int, value: ast.AST) -> Callable[[], None]:
    def change() -> None:
        held[at] = value
    return change


def _assign(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)
