"""`muster rules import-nhc`: what of an nhc.conf muster's rules cover, and the numbers to set."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing
from healthcheck.cli.options import RULES, check_sku
from healthcheck.config import rulesfolder
from healthcheck.explain.nhcconf import read_nhc_conf
from healthcheck.explain.nhcrules import Cover, match, settings
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.text import clean

if TYPE_CHECKING:
    from healthcheck.explain.nhcrules import NhcMatch
    from healthcheck.ruleset.ruleset import Ruleset


@click.command("import-nhc")
@click.argument("file")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="With --out: the SKU of these machines, over which the file's numbers go.")
@click.option("--out", metavar="FOLDER", help="Write the values to set as site rules into a new folder.")
@RULES
@formats()
def import_nhc(file: str, sku: str | None, out: str | None, rules: str | None, fmt: str) -> None:
    """Show for each check of an nhc.conf (LBNL Node Health Check) the rules that cover it, what they judge
    less or otherwise, and the value to set; and list what has no match.

    FILE may be - for standard input. Nothing of it is run. A rule is for all nodes that it is judged on:
    targets are shown, and where they differ, a number belongs into a SKU and a rule into a profile.

    \b
    muster rules import-nhc /etc/nhc/nhc.conf
    muster rules import-nhc /etc/nhc/nhc.conf --sku hgx-h100 --out nhc-rules
    muster check --rules nhc-rules --sku hgx-h100-nhc

    Exit: 0 read, 2 usage.
    """
    from healthcheck.ruleset.ruleset import ruleset_of

    ruleset = ruleset_of(rules)
    check_sku(sku, ruleset)
    from inventory.importers.base import MAX_BYTES, check_size, read

    data = sys.stdin.buffer.read(MAX_BYTES + 1) if file == "-" else read(file)
    check_size(data, file)
    lines = read_nhc_conf(data)
    found = [match(line) for line in lines if not line.sets_a_variable]
    own = {rule.id: rule.parameters for rule in ruleset.rules}
    numbers, parameters, remarks = settings([one for one in found if not one.line.note], own)
    variables = [line for line in lines if line.sets_a_variable]
    if fmt == "json":
        click.echo(json.dumps(_document(found, [line.number for line in variables], numbers, parameters,
                                        remarks), indent=1))
    else:
        _show(found, numbers, parameters, remarks)
        if variables:
            places = ", ".join(str(line.number) for line in variables)
            click.echo(f"Settings of NHC itself, which muster does not need: line {places}")
    if out is not None:
        _write(Path(out), numbers, parameters, sku, ruleset, rulesfolder.folders(rules))


def _show(found: Sequence[NhcMatch], numbers: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Any]],
          remarks: Sequence[str]) -> None:
    for one in found:
        line = one.line
        click.echo(f"line {line.number}  {clean(line.target, 80)}  {clean(line.command, 160)}")
        click.echo(f"    {one.cover.value:<8}  {', '.join(one.rules)}".rstrip())
        for note in filter(None, (line.note, one.note)):
            click.echo(f"    {note}")
    counts = Counter(one.cover for one in found)
    click.echo("" if found else "no check")
    click.echo(", ".join(f"{counts[cover]} {cover.value}" for cover in Cover))
    without = [one.line for one in found if one.cover is Cover.NONE]
    if without:
        click.echo("No match: " + ", ".join(f"{clean(line.name, 60)} (line {line.number})"
                                            for line in without))
    if numbers or parameters:
        click.echo("\nTo set (--out FOLDER writes it):")
        click.echo(_rules_yaml(parameters) + (f"numbers: {json.dumps(numbers)}      # of the SKU\n"
                                              if numbers else ""), nl=False)
    for remark in remarks:
        click.echo(clean(remark, 1000))


def _rules_yaml(parameters: Mapping[str, Mapping[str, Any]]) -> str:
    """Entries of site rules; JSON is YAML, and quotes what comes from the file."""
    return "".join(f"- id: {rule}\n" + ("  enabled: true\n" if rule in ("service-expected", "host-bios")
                                        else "") + f"  with: {json.dumps(values)}\n"
                   for rule, values in parameters.items())


def _document(
    found: Sequence[NhcMatch], variables: Sequence[int], numbers: Mapping[str, Any],
    parameters: Mapping[str, Mapping[str, Any]], remarks: Sequence[str],
) -> dict[str, Any]:
    return {
        "schema": "muster.nhc/1",
        "checks": [{
            "line": one.line.number, "target": one.line.target, "command": one.line.command,
            "check": one.line.name, "cover": one.cover.value, "rules": list(one.rules),
            "notes": [note for note in (one.line.note, one.note) if note],
        } for one in found],
        "variables": list(variables), "sku_numbers": dict(numbers),
        "rules": {rule: dict(values) for rule, values in parameters.items()}, "remarks": list(remarks),
    }


def _write(out: Path, numbers: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Any]],
           sku: str | None, ruleset: Ruleset, folders: Sequence[Path]) -> None:
    """Writes a folder of site rules whole: it appears by a rename."""
    import tempfile

    from healthcheck.ruleset.ruleset import load_ruleset

    if out.exists():
        raise UsageError(f"--out {out}: exists already")
    if numbers and sku is None:
        raise UsageError(f"--out {out}: the file gives numbers of a SKU ({', '.join(numbers)}); say of which "
                         "with --sku, such as --sku hgx-h100; muster sku list")
    if not numbers and not parameters:
        raise UsageError(f"--out {out}: there is nothing to set")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as made:
            folder = Path(made) / out.name
            (folder / "sku").mkdir(parents=True)
            head = "# From an nhc.conf, by muster rules import-nhc.\n"
            if parameters:
                (folder / "nhc.yaml").write_text(head + _rules_yaml(parameters), encoding="utf-8")
            if numbers and sku is not None:
                (folder / "sku" / f"{sku}-nhc.yaml").write_text(
                    f"{head}sku: {sku}-nhc\ninherit: {sku}\ntitle: "
                    f"{json.dumps(ruleset.skus[sku].title)}\nnumbers: {json.dumps(numbers)}\n"
                    "source: the site's nhc.conf\n", encoding="utf-8")
            load_ruleset([*folders, folder])
            folder.rename(out)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
    click.echo(f"written: {out}; use it with --rules {out}"
               + (f", and sku: {sku}-nhc" if numbers else ""), err=True)
