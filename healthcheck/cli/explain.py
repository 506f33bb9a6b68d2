"""`muster explain RULE`: what a rule checks, why, how sure we are, and where it is from; `muster explain xid 79`: what a number means;
`muster explain kernel`: the known faults of the kernel's log; `muster explain policy`: what triage does about what; `muster explain FILE`:
what is wrong by a log, a report or a recording."""

from __future__ import annotations

import json

import click

from inventory.errors import UsageError
from inventory.text import short


@click.command()
@click.argument("rule", required=False)
@click.argument("number", required=False)
@click.option("--rules", metavar="DIR", help="A folder of site rules and SKUs that override the packaged ones by id.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
def explain(rule: str | None, number: str | None, rules: str | None, form: str) -> int:
    """Say what RULE checks, what it takes, what to do when it fails, and which file it is from. Without RULE, list all rules.

    Of a FILE, say what is wrong by it, how sure that is, what to do, and who does it: a kernel log, nvidia-bug-report.log.gz, a job's
    log (NCCL, torchrun, Slurm), nccl-tests output, nvidia-smi -q, dcgmi diag -j, a recording. It needs no inventory and no network.
    A rule's id, and the words below, go before a file of that name: write ./NAME then. - is standard input.

    After xid or sxid, say what NUMBER means in the kernel log, who says what about it, and what muster makes of it. Without
    NUMBER, list all. After kernel, say what the known fault of that id is, or which one a line of the kernel's log is. After
    policy, say what triage makes of a fault or of a rule's failures, or all of it.

    \b
    muster explain gpu-ecc-uncorrected
    muster explain xid 79
    muster explain sxid 20034
    muster explain kernel nvme-down
    muster explain kernel 'nvme nvme0: Abort status: 0x371'
    muster explain policy
    muster explain policy gpu-error
    muster explain gpu-ecc-uncorrected --rules /etc/muster/rules
    muster explain slurm-4711.out
    dmesg | muster explain -

    Exit, of a file: 0 nothing found, 1 something is wrong, 2 no file that is known, 3 nothing found in a file that is not whole.
    """
    import difflib

    from healthcheck.cli import formerly
    from healthcheck.cli.explainfile import explain_file, is_file
    from healthcheck.config import rulesfolder
    from healthcheck.report.rule import document, text
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.store.accused import RULES

    folders = rulesfolder.folders(rules)
    ruleset = load_ruleset(folders)
    if rule in ("xid", "sxid"):
        from healthcheck.cli.explainxid import explain_xid

        explain_xid(rule, number, ruleset.xids, form)
        return 0
    if rule == "kernel":
        from healthcheck.cli.explainkernel import explain_kernel

        explain_kernel(number, folders, form)
        return 0
    if rule == "policy":
        from healthcheck.cli.explainpolicy import explain_policy

        explain_policy(number, folders, ruleset, form)
        return 0
    by_id = {known.id: known for known in ruleset.rules}
    if rule is not None:
        rule = formerly.today(rule, ruleset.former)
    if rule is not None and is_file(rule, by_id):
        if number is not None:
            raise UsageError(f"{short(rule)} is a file, and one file is explained at a time; {short(number)} is left over")
        return explain_file(rule, ruleset, folders, form)
    if number is not None:
        raise UsageError(f"a number is explained after xid or sxid only, not after {rule!r}")
    if rule is None:
        if form == "json":
            click.echo(json.dumps([document(known) for known in ruleset.rules], indent=1))
            return 0
        width = max(len(name) for name in by_id)
        for known in ruleset.rules:
            click.echo(f"{known.id:<{width}}  {known.severity.value:<8}  {known.checked.summary.splitlines()[0]}")
        return 0
    if rule in RULES:
        click.echo(json.dumps({"id": rule, "summary": RULES[rule]}, indent=1) if form == "json" else
                   f"{rule}\n{RULES[rule]}. No sweep judges it: muster burnin run does. It ends when a burn-in of the same length passes "
                   "the same stages there, when another part is in its place, or by a person's word.")
        return 0
    if rule not in by_id:
        close = difflib.get_close_matches(rule, by_id, n=1)
        raise UsageError(f"no such rule or file: {rule!r}" + (f"; did you mean {close[0]!r}?" if close else "; `muster explain` lists all"))
    click.echo(json.dumps(document(by_id[rule]), indent=1) if form == "json" else text(by_id[rule]))
    return 0
