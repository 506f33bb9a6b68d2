"""The command line: bad input is one clear line and exit 2, help teaches,
and nothing a user can do wrong gives a traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from healthcheck.cli.check import choose
from healthcheck.cli.main import COMMANDS
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from tests.command import MUSTER, environment, muster, started

GOOD = "version: 1\nnodes:\n  gpu[001-004]: {sku: hgx-h100}\n"
BOMB = ("version: 1\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c "
        "[*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f "
        "[*e,*e,*e,*e,*e,*e,*e,*e,*e]\nnodes: {a: {labels: {x: *f}}}\n")


def one_line(text: str) -> str:
    assert text.count("\n") == 1 and "Traceback" not in text, text
    return text


@pytest.mark.parametrize(("content", "words"), [
    (None, "no such file"), (b"", "empty"), (b"version: 1\nversion: 1\n", "version"),
    (b"version: 2\nnodes: {a: }\n", "version"), (b"version: 1\nnodes: {a: {sku: hgx-h200x}}\n", "hgx-h200"),
    (b"version: 1\nnodes: {a: {port: ssh}}\n", "port"),
    (b"version: 1\nnodes: {a: {prot: 22}}\n", "did you mean port?"),
    (b"version: 1\ngroups: {x: '@y', y: '@x'}\nnodes: {a: {}}\n", "x"),
    (BOMB.encode(), "over 1000000 values"), (b"version: 1\nnodes: {\xff: {}}\n", "UTF-8"), (b"- a\n", "map"),
    (b"version: 1\nnodes: {a: {}\n", ":"), (b"#" * (16 * 1024 * 1024 + 1), "16777216 bytes"),
    (b"version: 1\nnodes:\n  a: {}\n  a: {}\n", "already at"),
])
def test_a_bad_inventory_is_one_line_and_exit_2(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_bytes(content)
    done = muster("check", "--inventory", str(path), home=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert words.lower() in one_line(done.stderr).lower() and "bad.yaml" in done.stderr


@pytest.mark.parametrize(("words", "says"), [
    (["check"], "no inventory found and no node named"),
    (["check", "--local", "--replay", "x"], "exclude each other"),
    (["check", "--replay", "nowhere"], "no manifest.json"),
    (["check", "--local", "--only", "gpu"], "no rule matches 'gpu'"),
    (["check", "--local", "--sku", "h100"], "no such SKU"), (["check", "gpu[001-"], "gpu[001-"),
    (["check", "--replay", "x", "--save", "y"], "does not go with --replay"),
    (["check", "--local", "--rules", "nowhere"], "no such folder"),
    (["explain", "gpu-cuont"], "did you mean 'gpu-count'?"), (["check", "--from-slurm"], "sinfo"),
    (["inventory", "check"], "no inventory found"),
])
def test_a_users_mistake_is_one_line_and_exit_2(tmp_path: Path, words: list[str], says: str) -> None:
    done = muster(*words, home=tmp_path, PATH="/nonexistent")
    assert done.returncode == 2, done.stderr
    assert says in one_line(done.stderr)


def test_a_node_that_the_inventory_does_not_have_is_named_with_its_nearest(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(GOOD)
    done = muster("check", "gpu005", home=tmp_path)
    assert done.returncode == 2 and "gpu005" in one_line(done.stderr)


def test_an_unknown_check_in_a_sites_rules_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(
        "- id: x\n  check: gpu.colour\n  severity: info\n  remedy: r\n  source: s\n  proven: documented\n")
    done = muster("check", "--local", "--rules", str(tmp_path), home=tmp_path)
    assert (done.returncode == 2
            and "site.yaml:2:10: rule x: unknown check 'gpu.colour'" in one_line(done.stderr))


@pytest.mark.parametrize("command", [[], ["check"], ["explain"], ["inventory", "check"],
                                     ["inventory", "nodes"], ["inventory", "show"], ["demo"]])
def test_help_teaches_with_an_example(tmp_path: Path, command: list[str]) -> None:
    done = started(*command, "--help", home=tmp_path)
    assert done.returncode == 0 and "muster " in done.stdout.partition("Options")[0].partition("\n")[2]


def test_explain_lists_every_rule_and_tells_one_whole(tmp_path: Path) -> None:
    listed = muster("explain", "--format", "json", home=tmp_path)
    rules = json.loads(listed.stdout)
    assert len(rules) >= 18 and {"remedy", "source", "proven", "file", "severity"} <= rules[0].keys()
    told = muster("explain", "gpu-ecc-uncorrected", home=tmp_path)
    assert ("GPU" in told.stdout and "proven      documented" in told.stdout
            and "gpu-memory.yaml" in told.stdout)


def test_the_site_file_that_won_is_named(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("- id: host-swap\n  with: {allow_gib: 8}\n")
    told = muster("explain", "host-swap", "--rules", str(tmp_path), home=tmp_path)
    assert "file        site.yaml, which overrides" in told.stdout and "allow_gib: 8" in told.stdout


def test_completion_knows_the_commands(tmp_path: Path) -> None:
    done = muster(home=tmp_path, _MUSTER_COMPLETE="bash_complete", COMP_WORDS="muster ", COMP_CWORD="1")
    assert set(COMMANDS) <= {line.partition(",")[2] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("words", [["explain"], *(pytest.param(each, marks=pytest.mark.slow) for each in (
    ["explain", "--format", "json"], ["check", "--local", "--only", "host-memory"]))])
def test_a_reader_that_went_away_is_no_ones_failure(tmp_path: Path, words: list[str]) -> None:
    with subprocess.Popen([str(MUSTER), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(tmp_path)) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode in (0, 3)


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_change_neither_work_nor_exit_code(tmp_path: Path, stream: str) -> None:
    (tmp_path / "muster.yaml").write_text(GOOD)
    (tmp_path / "state").mkdir()
    for words, code in (("silence", 0), ("nodes", 2), ("inventory check", 0), ("rules list", 0)):
        done = subprocess.run(["sh", "-c", f'exec "$0" {words} {stream}', str(MUSTER)], cwd=tmp_path,
                              env=environment(tmp_path), text=True, capture_output=True, timeout=60,
                              check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (words, done.stderr[-2000:])


def test_a_plug_in_brings_its_own_checks_and_a_broken_one_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "site_checks.py").write_text(
        "from healthcheck.checks.base import check\nfrom healthcheck.model.outcome import Finding\n\n"
        "@check('site.memory_odd')\ndef odd(memory, *, divisor: int):\n    '''Memory is a multiple of the "
        "divisor.'''\n"
        "    if memory.total_bytes % divisor:\n        yield Finding(memory.total_bytes, divisor)\n")
    info = tmp_path / "site_checks-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-checks\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[muster.checks]\nsite = site_checks\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "site.yaml").write_text(
        "- id: site-memory-odd\n  check: site.memory_odd\n  with: {divisor: 1}\n  severity: warning\n  "
        "remedy: none known\n"
        "  source: our own\n  proven: documented\n")
    words = ("check", "--local", "--only", "site-*", "--rules", str(tmp_path / "rules"), "--format",
             "json", "--full")
    done = muster(*words, home=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert {r["rule"]: r["status"] for r in json.loads(done.stdout)["nodes"][0]["results"]}[
        "site-memory-odd"] == "pass"
    (tmp_path / "site_checks.py").write_text("import nothing_of_the_kind\n")
    broken = muster("explain", home=tmp_path, PYTHONPATH=str(tmp_path))
    assert (broken.returncode == 2 and "the plug-in site (site_checks) cannot be loaded: ModuleNotFoundError"
            in one_line(broken.stderr))


def test_a_node_that_should_be_back_by_now_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("version: 1\ndefaults: {address: nowhere.invalid}\nnodes:\n  a: {port: 1, lifecycle: "
                    "{state: rma, until: 2020-01-01}}\n"
                    "  b: {port: 2, lifecycle: {state: rma, until: 2999-01-01}}\n")
    done = muster("check", "-i", str(path), home=tmp_path)
    assert (done.returncode, "has passed: a; see: muster inventory lifecycle" in done.stderr) == (0, True)


@pytest.mark.parametrize(("called", "name"),
                         [("(none)", "localhost"), ("", "localhost"), ("gpu007.site.example", "gpu007")])
def test_this_machine_has_a_name_that_a_recording_may_carry_also_where_no_one_named_it(
    called: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("socket.gethostname", lambda: called)
    assert [node.name for node in choose(None, None, True, False, load_ruleset([packaged()]))] == [name]
