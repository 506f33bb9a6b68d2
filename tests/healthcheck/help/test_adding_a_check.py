"""`muster help adding-a-check` is followed to the letter on a copy of this checkout, and the tests that it
names pass there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.healthcheck.help.pages import FOLDER, ROOT, blocks

PAGE = FOLDER / "adding-a-check.md"
PARTS = ("inventory", "healthcheck", "provisioning", "rules", "tests", "pyproject.toml", "scripts",
         "README.md", "LICENSE", "CHANGELOG.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "recordings", "corpus", "golden")
# Every rule has a place there, and this says so.
POLICY = "tests/healthcheck/triage/test_policyload.py"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=LEFT_OUT)
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


def shown(language: str) -> list[str]:
    return [text for one, text in blocks(PAGE) if one == language]


def insert(file: Path, behind: str, text: str) -> None:
    """Puts text below the first line that begins so."""
    lines = file.read_text().splitlines(keepends=True)
    (at, *_) = [number for number, line in enumerate(lines) if line.startswith(behind)]
    file.write_text("".join([*lines[: at + 1], text, *lines[at + 1:]]))


def place(copy: Path, rule: str) -> None:
    """Adds the rule where the page says so: "add `ID` to `rules` of the entry `PLACE` under `places`"."""
    said = re.search(rf"add\s+`{rule}`\s+to\s+`rules`\s+of\s+the\s+entry\s+`([\w-]+)`\s+under\s+`places`",
                     PAGE.read_text())
    assert said is not None, rule
    policy = copy / "rules/policy.yaml"
    faults, places = policy.read_text().split("\nplaces:\n")
    before, entry, after = places.partition(f"- id: {said[1]}\n")
    assert entry
    policy.write_text(
        f"{faults}\nplaces:\n{before}{entry}{after.replace('  rules: [', f'  rules: [{rule}, ', 1)}")


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=copy, text=True,
                          capture_output=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy), "HOME": str(copy)})


def test_the_gpu_check_of_the_page_passes_its_tests(copy: Path) -> None:
    check, rows, *_ = shown("python")
    for name, text in (("healthcheck/checks/gpu_power.py", f"\n\n{check}"),
                       ("rules/gpu-power.yaml", f"\n{shown('yaml')[0]}")):
        with (copy / name).open("a") as file:
            file.write(text)
    test = copy / "tests/healthcheck/checks/test_gpu_power.py"
    for table, row in zip(("PASSING", "FAILING", "RESTS_ON"),
                          re.findall(r"^# to .*\n((?: .*\n)+)", rows, re.MULTILINE), strict=True):
        assert f"# to {table}" in rows
        insert(test, f"{table}:", row)
    place(copy, "gpu-shutdown-margin")
    done = run(copy, "pytest", "-q", "-p", "no:cacheprovider", str(test), POLICY)
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_host_check_of_the_page_passes_its_test(copy: Path) -> None:
    _, _, fact, check, line, test, *_ = shown("python")
    for name, text in (("healthcheck/facts/thp.py", fact), ("healthcheck/checks/thp.py", check),
                       ("rules/thp.yaml", shown("yaml")[1]),
                       ("tests/healthcheck/checks/test_thp.py", test)):
        assert name in PAGE.read_text()
        (copy / name).write_text(text)
    insert(copy / "provisioning/demo/host.py", "    files = machine.files", line)
    machine = copy / "tests/healthcheck/machine.py"
    insert(machine, "from healthcheck.facts.system import", "from healthcheck.facts.thp import MODE\n")
    insert(machine, '        "host.crash": done(', '        "thp.mode": held(MODE),\n')
    place(copy, "thp-mode")
    done = run(copy, "pytest", "-q", "-p", "no:cacheprovider", "tests/healthcheck/checks/test_thp.py", POLICY)
    assert done.returncode == 0, done.stdout[-3000:]
    for tool in (("ruff", "check", "healthcheck/facts/thp.py", "healthcheck/checks/thp.py",
                  "tests/healthcheck/checks/test_thp.py"),
                 ("mypy", "healthcheck/facts/thp.py", "healthcheck/checks/thp.py")):
        linted = run(copy, *tool)
        assert linted.returncode == 0, linted.stdout + linted.stderr


# What the page leaves out of the fact of a command, as it says so of files.
COMMAND = """\"\"\"SELinux: its mode.\"\"\"

from __future__ import annotations

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.values import Fact
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome


class SeLinux(Fact):
    \"\"\"`mode` is enforcing, permissive or disabled.\"\"\"

    name: str
    mode: str


"""
COMMAND_TEST = """
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.selinux import selinux
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import printed


def mode(recording):
    found = build_fact(FACTS["selinux"], Captures(recording))
    return found if isinstance(found, Unmeasured) else reading(found, "mode")


def test_the_command_is_read():
    assert mode(machine.recording()) == "permissive"
    assert mode(machine.recording(selinux_mode=Capture(Outcome.MISSING))) is UNSUPPORTED
    answers = [mode(recording) for recording in (%s)]
    assert answers[0] == "enforcing" and all(isinstance(one, Unmeasured) for one in answers[1:]) and len(answers) == 3
    assert "not permitted" in answers[1].reason and "did not answer" in answers[2].reason
"""  # noqa: E501


def test_the_command_of_the_page_is_read_as_it_says(copy: Path) -> None:
    *_, fact, tool, changes = shown("python")
    (copy / "healthcheck/facts/selinux.py").write_text(COMMAND + fact)
    insert(copy / "provisioning/demo/host.py", "    files = machine.files", tool)
    answer = re.search(r"`(\"selinux\.mode\": said\([^`]*),`", PAGE.read_text())
    assert answer is not None
    insert(copy / "tests/healthcheck/machine.py", '        "host.crash": done(', f"        {answer[1]},\n")
    test = copy / "tests/healthcheck/facts/test_selinux.py"
    test.write_text(COMMAND_TEST % ", ".join(changes.splitlines()))
    done = run(copy, "pytest", "-q", "-p", "no:cacheprovider", str(test))
    assert done.returncode == 0, done.stdout[-3000:]
    for linter in (("ruff", "check"), ("mypy",)):
        linted = run(copy, *linter, "healthcheck/facts/selinux.py")
        assert linted.returncode == 0, linted.stdout + linted.stderr
