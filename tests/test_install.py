"""The installation lines of the README and of `muster help installing`, as they are typed, each in a home of
its own.

They are run on a copy of this checkout with pipx and uv from a fresh virtual environment. Nothing of this
machine's users is seen: the home is empty, and what is written lies below it. It needs a package index, as
pip is configured.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.healthcheck.help.pages import FOLDER, README, ROOT, blocks
from tests.testbed.require import require

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
LIMIT_S = 900
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Root's bundle goes to /opt and /usr/local/bin: not to those of this machine. $1 is the home, $2 the lines.
OF_ROOT = """
mkdir "$1/opt"; cp -a /usr/local/bin "$1/bin"
mount --bind "$1/opt" /opt; mount --bind "$1/bin" /usr/local/bin
exec sh -ec "$2"
"""
APART = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
# What the offline bundle is installed from is made, and its file installed, by tests/test_bundle.py too; here
# it is typed as it stands.
MAKE = ["scripts/setup dev python3-venv", ".venv/bin/python -m build --wheel"]
ALONE = ("pipx ", "uv ")     # two ways to the same command: each line in a home of its own


def shell_blocks(text: str) -> list[list[str]]:
    """The lines of each sh block."""
    return [[line for line in block.splitlines() if line and not line.startswith("#")]
            for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def section(page: Path, heading: str) -> str:
    """The text below a heading of the second rank."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


INSTALL = shell_blocks(section(README, "Install"))
TOPIC = [lines for lines in shell_blocks((FOLDER / "installing.md").read_text())
         if not lines[0].startswith("eval ")]
# Both pages have some of them.
BLOCKS = [list(lines) for lines in dict.fromkeys(tuple(lines) for lines in (*INSTALL, *TOPIC))]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pipx and uv."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "pipx", "uv"], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as `git clone REPOSITORY muster` makes it, with what is not committed yet."""
    folder = tmp_path_factory.mktemp("cloned")
    (line,) = [line
               for _, block in blocks(README) for line in block.splitlines() if line.startswith("git clone ")]
    typed = line.replace("REPOSITORY", shlex.quote(str(ROOT))) + " && pwd"
    done = subprocess.run(["sh", "-ec", typed], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    made = Path(done.stdout.strip())
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True)
    for file in filter(None, listed.stdout.split("\0")):
        if (ROOT / file).is_file():
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, made / file)
    return made


def environment(home: Path, tools: Path) -> Mapping[str, str]:
    """A fresh user's, but for where packages are had from."""
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_"))
            or key.lower().endswith("_proxy")}
    return {**kept, **indexes(), "HOME": str(home), "PATH": f"{home}/.local/bin:{tools}:{PATHS}",
            "PYTHON": sys.executable,
            "PIPX_DEFAULT_PYTHON": sys.executable, "UV_PYTHON": sys.executable, "LANG": "C.UTF-8"}


def indexes() -> Mapping[str, str]:
    """pip's index for uv, which reads no pip.conf."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    found = dict(re.findall(r"^(?:global|user|install|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    made = {}
    for key, name in (("index-url", "UV_DEFAULT_INDEX"), ("extra-index-url", "UV_INDEX"),
                      ("find-links", "UV_FIND_LINKS"),
                      ("cert", "SSL_CERT_FILE")):
        if key in found:
            made[name] = found[key].strip()
    return made


def typed(lines: list[str], checkout: Path, home: Path, tools: Path) -> subprocess.CompletedProcess[str]:
    """The lines, typed in the checkout one after the other."""
    home.mkdir(exist_ok=True)
    bundled = [line for line in lines if line.startswith("sh muster-")]
    if bundled and os.geteuid() == 0:
        require(APART.returncode == 0, f"a mount namespace cannot be made here: {APART.stderr.strip()}")
        others = [line for line in lines if line not in bundled]
        if others:
            typed(others, checkout, home, tools)
        command = ["unshare", "--mount", "sh", "-ec", OF_ROOT, "sh", str(home),
                   "\n".join([*bundled, "muster --version"])]
    else:
        command = ["sh", "-ec", "\n".join(lines)]
    done = subprocess.run(command, cwd=checkout, env=environment(home, tools), text=True, capture_output=True,
                          timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{lines}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


def version(command: Path | str, home: Path, tools: Path) -> str:
    done = subprocess.run([command, "--version"], cwd="/", env=environment(home, tools), text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pages_show_every_way_to_install() -> None:
    text = "\n".join(line for lines in INSTALL for line in lines)
    assert all(way in text for way in ("scripts/setup", "pipx install .", "uv tool install .", ".whl",
                                       "scripts/bundle", "[redfish,kubernetes]"))
    assert not re.search(r"^(sudo )?(python3 -m )?pip install", text, re.MULTILINE)


@pytest.mark.parametrize("lines", BLOCKS, ids="; ".join)
def test_the_lines_work_as_typed(lines: list[str], checkout: Path, tools: Path, tmp_path: Path) -> None:
    """Afterwards `muster --version` answers, from anywhere."""
    before = [line for line in lines if not line.startswith(ALONE)]
    each = [line for line in lines if line.startswith(ALONE)]
    wheel = any(".whl" in line for line in lines) and not list((checkout / "dist").glob("*.whl"))
    if wheel and not any("build --wheel" in line for line in lines):
        typed(MAKE, checkout, tmp_path / "making", tools)
    if not each:
        said = typed(lines, checkout, tmp_path / "home", tools).stdout
        if "muster, version" not in said:
            said = version(tmp_path / "home" / ".local" / "bin" / "muster", tmp_path / "home", tools)
        assert "muster, version 0.1.0" in said
        return
    if before:
        typed(before, checkout, tmp_path / "making", tools)
    for number, line in enumerate(each):
        home = tmp_path / f"home{number}"
        typed([line], checkout, home, tools)
        assert version(home / ".local" / "bin" / "muster", home, tools) == "muster, version 0.1.0\n"
        topics = subprocess.run([home / ".local" / "bin" / "muster", "help", "triage"], cwd="/",
                                env=environment(home, tools), text=True,
                                capture_output=True, check=False)
        assert topics.stdout.startswith("# Triage\n"), topics.stderr


def test_another_distributions_package_of_the_same_name_does_no_harm(checkout: Path, tools: Path,
                                                                     tmp_path: Path) -> None:
    """Even in a shared environment, which the pages advise against: its files and ours lie beside each
    other."""
    home = tmp_path / "home"
    typed([*MAKE, f"{sys.executable} -m venv {tmp_path}/shared",
           f"{tmp_path}/shared/bin/pip install --quiet dist/cluster_muster-0.1.0-py3-none-any.whl"],
          checkout, home, tools)
    other = tmp_path / "healthcheck-1.3.0-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as wheel:
        wheel.writestr("healthcheck/__init__.py", "from healthcheck.healthcheck import HealthCheck\n")
        wheel.writestr("healthcheck/healthcheck.py", "class HealthCheck: pass\n")
        wheel.writestr("healthcheck-1.3.0.dist-info/METADATA",
                       "Metadata-Version: 2.1\nName: healthcheck\nVersion: 1.3.0\n")
        wheel.writestr("healthcheck-1.3.0.dist-info/WHEEL",
                       "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("healthcheck-1.3.0.dist-info/RECORD", "")
    typed([f"{tmp_path}/shared/bin/pip install --quiet --no-deps {other}"], checkout, home, tools)
    assert version(tmp_path / "shared" / "bin" / "muster", home, tools) == "muster, version 0.1.0\n"
