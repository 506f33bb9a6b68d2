"""The command line as it was typed, to be repeated with an option more."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource


def again(*more: str) -> str:
    """The running command with the arguments and options that it was given, and `more`, as a shell takes
    it."""
    context = click.get_current_context()
    words = ["muster", str(context.info_name)]
    for parameter in context.command.params:
        if context.get_parameter_source(str(parameter.name)) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[str(parameter.name)]
        if isinstance(parameter, click.Argument):
            words += [str(value)] * (value is not None)
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            words += [parameter.opts[0]] * bool(value)
        else:
            words += [parameter.opts[0], str(value)]
    return shlex.join([*words, *more])
