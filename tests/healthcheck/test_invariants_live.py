"""Invariants 2 to 6 of the design, each proven on a fleet of real sshd processes."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from healthcheck.collector import program
from healthcheck.config.rulesfolder import packaged
from healthcheck.report.document import document
from healthcheck.report.progress import progress
from healthcheck.report.table import Heading, render
from healthcheck.ruleset.rule import Number
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.sweep import sweep
from healthcheck.sweep.saved import Saver
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.load import load_inventory
from inventory.model import Node
from inventory.nodeset import fold
from inventory.sshconfig import SshConfig
from inventory.transport.base import Transport
from inventory.transport.local import LocalTransport
from inventory.transport.ssh import SshTransport
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.packagedrules import RULES
from tests.testbed.memory import base_in_memory
from tests.testbed.require import require_fleet

ROOT = Path(__file__).resolve().parents[2]
PLANTED = {
    "gpu001": (), "gpu003": ("hostile-bytes",), "gpu004": ("ecc-uncorrectable", "disk-full"),
    "gpu005": ("link-flapping",),
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("base")), planted=PLANTED) as running:
        yield running


def swept(nodes: Iterable[Node], transport: Transport, *, rules: Ruleset = RULES, timeout: float = 90,
          snapshots: KeptSnapshots | None = None,
          saver: Saver | None = None) -> sweep.SweepResult:
    """One sweep; progress is silent."""
    plan = sweep.SweepPlan(tuple(nodes), rules)
    return sweep.live(plan, transport, sweep.limits(timeout, 16), progress(0, "", quiet=True),
                      snapshots=snapshots, saver=saver)


def over_ssh() -> SshTransport:
    return SshTransport(SshConfig.parse(""))


def nodes_of(fleet: DemoFleet) -> tuple[Node, ...]:
    return tuple(load_inventory(fleet.inventory, RULES.skus))


def as_json(outcome: sweep.SweepResult) -> str:
    """All that a sweep says, without its times."""
    return json.dumps(document(outcome.assessed.reports, started="", finished="", partial=outcome.partial,
                               full=True), indent=1)


# ---- 2: one exec per node per sweep, and of 4: it writes nothing


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder but what is ours to write: kind, mode, size, and for files time and
    content."""
    found: dict[str, tuple[object, ...]] = {}
    for at, folders, files in os.walk(root):
        if Path(at) == root / "run" and "muster" in folders:
            folders.remove("muster")
        for name in (*folders, *files):
            path = Path(at, name)
            state = path.lstat()
            about: tuple[object, ...] = (oct(state.st_mode), state.st_uid)
            if path.is_symlink():
                about = (*about, str(path.readlink()))
            elif path.is_file():
                about = (*about, state.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            elif path != root / "run":
                about = (*about, state.st_mtime_ns)
            found[str(path.relative_to(root))] = about
    return found


def test_invariants_2_and_4_a_sweep_is_one_exec_per_node_and_writes_nothing_but_under_run_muster(
    fleet: DemoFleet,
) -> None:
    nodes = nodes_of(fleet)[1:]
    for name in (node.name for node in nodes):
        config = fleet.folder / name / "sshd_config"
        config.write_text(f"{config.read_text()}LogLevel VERBOSE\n")
        login = fleet.folder / name / "login"
        login.write_text(login.read_text().replace(
            "#!/bin/sh\n", f'#!/bin/sh\necho "$SSH_ORIGINAL_COMMAND" >> {fleet.folder}/{name}/commands\n', 1))
        (fleet.folder / name / "sshd.log").unlink(missing_ok=True)
    before = {node.name: tree(fleet.nodes[node.name].tree) for node in nodes}
    assert all(len(entries) > 100 for entries in before.values())
    outcome = swept(nodes, over_ssh())
    assert {name: tree(fleet.nodes[name].tree) for name in before} == before
    assert all(len(report.results) == len(RULES.rules) for report in outcome.assessed.reports)
    for name in (node.name for node in nodes):
        log = (fleet.folder / name / "sshd.log").read_text()
        seen = [len(re.findall(words, log))
                for words in ("Connection from", "Accepted publickey", "Starting session")]
        assert seen == [1, 1, 1], f"{name}: {seen}\n{log}"
        commands = (fleet.folder / name / "commands").read_text().splitlines()
        assert len(commands) == 1 and commands[0].count("exec python3 ") == 1, commands


# ---- 3: same path near and far


def nearby(fleet: DemoFleet, node: Node) -> Node:
    """The same node without SSH: its Python is started in the environment that its login makes."""
    name = node.name
    exports = [line for line in (fleet.folder / name / "login").read_text().splitlines()
               if line.startswith(("#!", "export ", "cd "))]
    python = fleet.folder / name / "python"
    python.write_text("\n".join([*exports, 'exec python3 "$@"', ""]))
    python.chmod(0o755)
    return replace(node, python=str(python))


def test_invariant_3_ssh_local_and_replay_give_the_same_results_byte_for_byte(fleet: DemoFleet,
                                                                              tmp_path: Path) -> None:
    nodes = nodes_of(fleet)
    # An earlier look at the one whose links flap.
    swept(nodes[-1:], over_ssh(), snapshots=KeptSnapshots(tmp_path / "ssh"))
    shutil.copytree(tmp_path / "ssh", tmp_path / "local")
    fleet.advance()
    near = swept([nearby(fleet, node) for node in nodes], LocalTransport(),
                 snapshots=KeptSnapshots(tmp_path / "local"))
    far = swept(nodes, over_ssh(), snapshots=KeptSnapshots(tmp_path / "ssh"), saver=Saver(tmp_path / "saved"))
    assert {report.node: report.state.value for report in far.assessed.reports} == {
        "gpu001": "healthy", "gpu003": "unhealthy", "gpu004": "unhealthy", "gpu005": "degraded",
    }, as_json(far)
    assert as_json(near) == as_json(far)
    _, again = sweep.replay(tmp_path / "saved", RULES, (), (), None)
    assert as_json(again) == as_json(far)


# ---- 4: collecting, judging and acting are three things


def with_other_thresholds(folder: Path) -> Ruleset:
    """The packaged rules with every parameter that is a number, true or false set to another value."""
    changed = []
    for rule in RULES.rules:
        other = {key: not value if isinstance(value, bool) else value * 2 + 1
                 for key, value in rule.parameters.items() if isinstance(value, (bool, int, float))}
        kinds = {key: rule.checked.parameters[key].hint
                 for key, value in rule.parameters.items() if isinstance(value, Number)}
        numbers = {key: {bool: False, str: "other"}.get(kind, 1) for key, kind in kinds.items()}
        changed.append({"id": rule.id, "severity": "info",
                        **({"with": {**other, **numbers}} if other or numbers else {})})
    (folder / "site.yaml").write_text(yaml.safe_dump(changed))
    return load_ruleset([packaged(), folder])


def test_invariant_4_thresholds_do_not_change_what_is_collected(tmp_path: Path) -> None:
    other = with_other_thresholds(tmp_path)
    assert sum(a.parameters != b.parameters for a, b in zip(RULES.rules, other.rules, strict=True)) >= 8
    before, after = (rules.probe_set(45.0) for rules in (RULES, other))
    assert json.dumps(before.to_json()) == json.dumps(after.to_json())
    assert program.build(before).payload == program.build(after).payload


# ---- 5: whoever may edit a rule cannot run anything


def attacks(canary: Path) -> tuple[str, ...]:
    """Texts that run something where anybody evaluates, formats, expands or unpacks them."""
    touch = f"touch {canary}"
    return (
        f"$({touch})", f"`{touch}`", f"; {touch} #", f"| {touch}",
        f"{{{{ ''.__class__.__mro__[1].__subclasses__() }}}} $({touch})",
        f"{{% import os %}}{{{{ os.system('{touch}') }}}}", f"__import__('os').system('{touch}')",
        f"lambda: __import__('os').system('{touch}')",
        "{0.__class__.__init__.__globals__}", "{rule.__class__}", "%(x)s %n",
        f"!!python/object/apply:os.system ['{touch}']",
        f"${{IFS}}{touch}", "[link=http://example.invalid][bold]x",
    )


@pytest.fixture(scope="module")
def saved(fleet: DemoFleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved sweep of three nodes: a healthy one, one that sends hostile bytes and one with a sick GPU."""
    folder = tmp_path_factory.mktemp("saves") / "saved"
    swept(nodes_of(fleet)[:3], over_ssh(), saver=Saver(folder))
    return folder


@pytest.fixture(scope="module")
def saved_one(fleet: DemoFleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved sweep of the healthy one: for what is judged once for each text."""
    folder = tmp_path_factory.mktemp("saves") / "one"
    swept(nodes_of(fleet)[:1], over_ssh(), saver=Saver(folder))
    return folder


OF_NUMBERS = {"exempt_uids"}    # lists that are empty as they come, and hold no text


def hostile_rules(site: Path, text: str, *, device: bool = True) -> Path:
    """Site rules in which every text that can be set is this one; without `device` nodes are still of their
    SKU."""
    (site / "sku").mkdir(parents=True)
    (site / "sku" / "dgx-h100.yaml").write_text(yaml.safe_dump({
        "sku": "dgx-h100", "title": text,
        "numbers": {**({"gpu_device": text} if device else {}), "memory_gib": 4096}, "source": text}))
    changed: list[dict[str, Any]] = []
    for rule in RULES.rules:
        lists = {key: [text, f"/nowhere/{text}*"] for key, value in rule.parameters.items()
                 if isinstance(value, tuple) and key not in OF_NUMBERS
                 and all(isinstance(item, str) for item in value)}
        changed.append({"id": rule.id, "remedy": text, "source": text, **({"with": lists} if lists else {})})
    # which is YAML, too, and takes a tenth of the time to write
    (site / "site.yaml").write_text(json.dumps(changed))
    return site


def page(outcome: sweep.SweepResult, rules: Ruleset, *, terminal: bool = False) -> str:
    """The table as printed."""
    console = Console(file=StringIO(), width=200, soft_wrap=True, highlight=False, markup=False, emoji=False,
                      force_terminal=terminal)
    heading = Heading("the test", outcome.seconds, outcome.partial, len(rules.rules))
    render(console, outcome.assessed, {rule.id: rule for rule in rules.rules}, heading, fold)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def controls(text: str) -> set[str]:
    """Characters that a terminal acts on, but for the end of a line."""
    return {character for character in text if character != "\n"
            and (ord(character) < 32 or 127 <= ord(character) < 160)}


# All are in the one text of the next tests. Alone, all but one for a shell and one for YAML's are slow.
FAST = {0, 11}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow])
                                  for kind in range(len(attacks(Path("x"))))])
def test_invariant_5_no_text_of_a_rule_has_an_effect(saved_one: Path, tmp_path: Path, kind: int) -> None:
    canary = tmp_path / "canary"
    text = attacks(canary)[kind]
    rules = load_ruleset([packaged(), hostile_rules(tmp_path / "site", text, device=False)])
    _, outcome = sweep.replay(saved_one, rules, (), (), None)
    memory = next(result for result in outcome.assessed.reports[0].results if result.rule == "host-memory")
    assert memory.status.value == "fail" and memory.remedy == " ".join(text.split())
    printed = page(outcome, rules)
    assert f"remedy (vendor): {memory.remedy}" in printed and not controls(printed)
    assert not canary.exists()


def test_invariant_5_no_text_of_a_sku_that_the_nodes_contradict_has_an_effect(saved_one: Path,
                                                                              tmp_path: Path) -> None:
    """All of them in one text: loading the rules costs more than all else here."""
    canary = tmp_path / "canary"
    rules = load_ruleset([packaged(), hostile_rules(tmp_path / "site", " ".join(attacks(canary)))])
    _, outcome = sweep.replay(saved_one, rules, (), (), None)
    memory = next(result for result in outcome.assessed.reports[0].results if result.rule == "host-memory")
    assert memory.status.value == "unknown" and "GPUs on PCI are 10de:2330 and not" in memory.reason
    assert not controls(page(outcome, rules))
    assert not canary.exists()


def test_invariant_5_no_text_of_a_rule_has_an_effect_on_any_command(saved_one: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    site = hostile_rules(tmp_path / "site", " ".join(attacks(canary)))
    for words in (("check", "--replay", str(saved_one)),
                  ("check", "--replay", str(saved_one), "--format", "json"), ("explain", "host-memory"),
                  ("explain",), ("check", "--local", "--sku", "cpu-only")):
        done = muster(*words, "--rules", str(site), home=tmp_path)
        assert done.returncode in (0, 1, 3) and "Traceback" not in done.stderr, done.stderr
        assert not controls(done.stdout + done.stderr), words
    assert not canary.exists()


def test_invariant_5_a_rule_cannot_send_escape_codes_to_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text('- id: host-swap\n  remedy: "\\e]0;owned\\a"\n')
    done = muster("explain", "host-swap", "--rules", str(tmp_path), home=tmp_path)
    assert done.returncode == 2 and "site.yaml:2:11: contains the control character U+001B" in done.stderr
    assert not controls(done.stdout + done.stderr)


@pytest.mark.parametrize("tag", [
    "!!python/object/apply:os.system", "!!python/object/new:os.system", "!!python/name:os.system",
    "!!python/module:os", "!eval", "!include",
])
@pytest.mark.parametrize("rest", ["['touch {canary}']", "'touch {canary}'"])
def test_invariant_5_a_tag_of_yaml_makes_nothing_and_is_refused_with_its_place(tmp_path: Path, tag: str,
                                                                               rest: str) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "site.yaml").write_text(f"- id: host-swap\n  remedy: {tag} {rest.format(canary=canary)}\n")
    done = muster("explain", "host-swap", "--rules", str(tmp_path), home=tmp_path)
    assert (done.returncode == 2 and "site.yaml:2:11" in done.stderr
            and done.stderr.count("\n") == 1), done.stderr
    assert not canary.exists()


RUNS = {"eval", "exec", "compile", "__import__", "globals", "setattr", "system", "popen", "format_map",
        "Template", "Environment", "import_module"}
LOADS = {"subprocess", "importlib", "runpy", "pickle", "marshal", "code", "jinja2", "string", "shlex", "pty"}


@pytest.mark.parametrize("module", [
    "ruleset/ruleset", "ruleset/rulesetload", "ruleset/rule", "ruleset/sku", "judge/judge", "judge/nodefacts",
    "sweep/assess", "config/rulesfolder",
    "checks/base"])
def test_invariant_5_nothing_that_handles_rules_can_run_their_text(module: str) -> None:
    for part in ast.walk(ast.parse((ROOT / "healthcheck" / f"{module}.py").read_text())):
        names = {getattr(part, "id", None), getattr(part, "attr", None)} & RUNS
        if (names == {"compile"} and isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
            and part.value.id == "re"):
            continue
        assert not names, f"{module}.py:{getattr(part, 'lineno', 0)}: {names}"
        if isinstance(part, ast.Import):
            loaded = {alias.name.partition(".")[0] for alias in part.names}
        elif isinstance(part, ast.ImportFrom):
            loaded = {(part.module or "").partition(".")[0]}
        else:
            continue
        assert not loaded & LOADS, f"{module}.py:{part.lineno}: {loaded & LOADS}"


# ---- 6: a sick node cannot hurt the sweep

# What a node that lies does in the place of Python; it knows the nonce, as a node can.
LIAR = """
import hashlib, json, os, re, sys, time, zlib
N = re.search("muster:([0-9a-f]+):login", os.environ["SSH_ORIGINAL_COMMAND"])[1]
OUT = sys.stdout.buffer
def say(text):
    OUT.write(("muster:%s:%s\\n" % (N, text)).encode()); OUT.flush()
def answer(body):
    say("frame %d %s" % (len(body), hashlib.sha256(body).hexdigest())); OUT.write(body); OUT.flush()
ESCAPES = b"\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\xe2\\x80\\xae" * 70000
say("login"); say("python 3.11")
"""
LIES: Mapping[str, tuple[str, str, str]] = {   # what it does, then the stage and words of its reason
    "hangs": ("time.sleep(3600)", "deadline", "no answer after"),
    "floods": ("while True: OUT.write(b'A' * 65536)", "reply", "over 1 MiB of output before our answer"),
    "huge": ("say('frame 99999999999 ' + '0' * 64); time.sleep(3600)", "reply",
             "announces 99999999999 bytes, over the limit"),
    "bomb": (
        "z = zlib.compressobj(9); mib = lambda: z.compress(bytes(1 << 20)) + z.flush(zlib.Z_FULL_FLUSH); "
        "answer(mib() + mib() * 1023)",
        "reply", "grows past 32 MiB"),
    "escapes": ("OUT.write(ESCAPES + b'\\n'); OUT.flush(); os.write(2, ESCAPES); sys.exit(3)", "reply",
                "over 1 MiB of output"),
    "whispers": ("os.write(2, ESCAPES + b'\\n' + ESCAPES[:100]); sys.exit(3)", "reply",
                 "ended without an answer"),
    "imitates": ("say('frame 4 ' + '0' * 64); OUT.write(b'null')", "reply", "checksum does not hold"),
    "babbles": ("say('\\x1b[31mframe x'); time.sleep(3600)", "reply", "unknown protocol line"),
    "older": ("answer(zlib.compress(json.dumps({'schema': 'muster.reply/\\x1b[31m0'}).encode()))", "reply",
              "of another version"),
    "cut": ("say('frame 4000 ' + '0' * 64); OUT.write(b'null')", "reply", "cut: 4 of 4000 bytes"),
}


@pytest.fixture(scope="module")
def liars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    """A fleet in which some nodes lie, each in its way, and gpu001 is healthy."""
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("base")),
                   planted=dict.fromkeys(("gpu001", *LIES), ())) as running:
        for name, (source, _, _) in LIES.items():
            at = running.folder / name
            (at / "liar.py").write_text(LIAR + source + "\n")
            (at / "login").write_text(f"#!/bin/sh\nexec {shutil.which('python3')} -I -S {at}/liar.py\n")
        yield running


@pytest.fixture(scope="module")
def lied(liars: DemoFleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[sweep.SweepResult, Path]:
    """A sweep of it that ended in time, and where it is saved."""
    folder = tmp_path_factory.mktemp("saves") / "lied"
    began = time.monotonic()
    outcome = swept(nodes_of(liars), over_ssh(), timeout=20, saver=Saver(folder))
    assert time.monotonic() - began < 22
    return outcome, folder


def test_invariant_6_a_sick_node_cannot_hurt_the_sweep(lied: tuple[sweep.SweepResult, Path]) -> None:
    outcome, _ = lied
    reports = {report.node: report for report in outcome.assessed.reports}
    for name, (_, stage, words) in LIES.items():
        report = reports.pop(name)
        assert report.state.value == "unknown" and report.results == ()
        assert (report.stage == stage and report.reason.startswith(f"{stage}: ")
                and words in report.reason), f"{name}: {report.reason}"
    assert [(name, report.state.value) for name, report in reports.items()] == [("gpu001", "healthy")]
    assert all(len(report.results) == len(RULES.rules) for report in reports.values())
    assert not controls(page(outcome, RULES))


def test_invariant_6_what_hostile_nodes_say_is_printed_without_a_control_byte(
    lied: tuple[sweep.SweepResult, Path], saved: Path, tmp_path: Path,
) -> None:
    for words in (("check", "--replay", str(lied[1])), ("check", "--replay", str(saved)),
                  ("check", "--replay", str(saved), "--format", "jsonl")):
        done = muster(*words, home=tmp_path)
        assert done.returncode in (1, 3), done.stderr
        assert "unknown" in done.stdout or "unhealthy" in done.stdout
        assert not controls(done.stdout + done.stderr), words


def test_invariant_6_on_a_terminal_the_only_escape_codes_are_our_colours(saved: Path) -> None:
    _, outcome = sweep.replay(saved, RULES, (), (), None)
    text = page(outcome, RULES, terminal=True)
    assert "\x1b[" in text and "owned" in text
    assert not controls(re.sub(r"\x1b\[[0-9;]*m", "", text))
    assert not set(re.findall(r"\x1b\[([0-9;]*)m", text)) - {"0", "1", "2", "31", "32", "33", "35", "36",
                                                             "1;31", "1;37;41"}
