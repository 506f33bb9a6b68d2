"""`muster explain RULE`: what a rule checks, why, how sure we are, and its file; `muster explain xid 79`:
what a number means; `muster explain kernel`: the known faults of the kernel log; `muster explain policy`:
what triage does; `muster explain FILE`: what is wrong according to a log, a report or a recording."""

from __future__ import annotations

import json

import click

from healthcheck.cli import completing, formerids
from healthcheck.cli.options import RULES
from healthcheck.cli.wrapping import echo
from healthcheck.config import rulesfolder
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.text import short


@click.command()
@click.argument("rule", required=False, shell_complete=completing.rule)
@click.argument("number", required=False)
@RULES
@formats()
def explain(rule: str | None, number: str | None, rules: str | None, fmt: str) -> int:
    """Explain what RULE checks, its parameters, what to do when it fails, and its file. Without RULE,
    list all rules.

    For a FILE, report what is wrong, how sure that is, what to do, and who does it. FILE is a kernel log,
    nvidia-bug-report.log.gz, a job's log (NCCL, torchrun, Slurm), nccl-tests output, nvidia-smi -q, dcgmi
    diag -j, a recording. Needs no inventory and no network. Rule ids and the words below win over a file of
    that name: write ./NAME then. - is standard input.

    After xid or sxid, explain NUMBER in the kernel log, with its sources, and how muster judges it. Without
    NUMBER, list all. After kernel, explain the known fault of that id, or the one that matches a kernel log
    line. After policy, show what triage does about a fault or a rule's failures, or show the whole policy.

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

    Exit, for a file: 0 nothing found, 1 something is wrong, 2 unknown kind of file,
    3 nothing found in an incomplete file.
    """
    import difflib

    from healthcheck.cli.explainfile import explain_file, is_file
    from healthcheck.report.rule import document, text
    from healthcheck.ruleset.ruleset import load_ruleset

    folders = rulesfolder.folders(rules)
    ruleset = load_ruleset(folders)
    if rule in ("xid", "sxid"):
        from healthcheck.cli.explainxid import explain_xid

        explain_xid(rule, number, ruleset.xids, fmt)
        return 0
    if rule == "kernel":
        from healthcheck.cli.explainkernel import explain_kernel

        explain_kernel(number, folders, fmt)
        return 0
    if rule == "policy":
        from healthcheck.cli.explainpolicy import explain_policy

        explain_policy(number, folders, ruleset, fmt)
        return 0
    by_id = {known.id: known for known in ruleset.rules}
    if rule is not None:
        rule = formerids.today(rule, ruleset.former)
    if rule is not None and is_file(rule, by_id):
        if number is not None:
            raise UsageError(f"{short(rule)} is a file, so {short(number)} is one argument too many")
        return explain_file(rule, ruleset, folders, fmt)
    if number is not None:
        raise UsageError(f"a number goes after xid or sxid only, not after {rule!r}")
    if rule is None:
        if fmt == "json":
            click.echo(json.dumps([document(known) for known in ruleset.rules], indent=1))
            return 0
        width = max(len(name) for name in by_id)
        for known in ruleset.rules:
            echo(f"{known.id:<{width}}  {known.severity.value:<8}  "
                       f"{known.checked.summary.splitlines()[0]}")
        return 0
    if rule not in by_id and _judged_elsewhere(rule, fmt):
        return 0
    if rule not in by_id:
        close = difflib.get_close_matches(rule, by_id, n=1)
        raise UsageError(f"no such rule or file: {rule!r}"
                         + (f"; did you mean {close[0]!r}?" if close else "; `muster explain` lists all"))
    if fmt == "json":
        click.echo(json.dumps(document(by_id[rule]), indent=1))
    else:
        echo(text(by_id[rule]))
    return 0


def _judged_elsewhere(rule: str, fmt: str) -> bool:
    """Shows what is known of findings that no rule of a sweep makes; False if this is none of them."""
    from healthcheck.store import accused, fabricfindings, watched

    for rules, ends in (
        (accused.RULES,
         "Only muster burnin run judges it. It ends when a burn-in of the same length passes the same stages "
         "there, when the part is replaced, or with `muster repaired`."),
        (watched.RULES,
         "No sweep judges it. It ends with the slowness or the job, or 15 minutes after the last watch."),
        (fabricfindings.RULES,
         "No sweep judges it. It ends when a later check of that subnet measures it and does not show it; "
         "what is not measured stays open. See: muster help fabric."),
    ):
        if rule in rules:
            if fmt == "json":
                click.echo(json.dumps({"id": rule, "summary": rules[rule]}, indent=1))
            else:
                echo(f"{rule}\n{rules[rule]}. {ends}")
            return True
    return False
