"""The command line as it was typed, to be repeated with an option more."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource


def again(*more: str) -> str:
    """The running command with the arguments and options given, and `more`, as a shell takes it."""
    context = click.get_current_context()
    names = []
    above: click.Context | None = context
    while above is not None and above.parent is not None:       # the outermost is muster itself
        names.append(str(above.info_name))
        above = above.parent
    words = ["muster", *reversed(names)] if names else ["muster", str(context.info_name)]
    for parameter in context.command.params:
        if context.get_parameter_source(str(parameter.name)) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[str(parameter.name)]
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Argument):
            words += [str(one) for one in values if one is not None]
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            words += [parameter.opts[0]] * bool(value)
        else:
            words += [word for one in values for word in (parameter.opts[0], str(one))]
    return shlex.join([*words, *more])
