"""The offline bundle: made here for the running Python, installed where there is no network, and refused
where it cannot work."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import random
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.testbed.require import require
from tests.testbed.sshd import wait_until
from tests.testbed.users import throwaway_user

ROOT = Path(__file__).resolve().parents[1]
VERSION = ".".join(map(str, sys.version_info[:2]))
PYTHON = str(Path(sys.executable).resolve())
MARK = b"\n#PAYLOAD#\n"
# some installations and two downloads, on a machine that may be busy
pytestmark = pytest.mark.timeout(300)
APART = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# $1 is the home, on which nothing can be written.
NO_NETWORK = [*APART, "sh", "-ec", 'mount -t tmpfs -o ro none "$1"; shift; exec "$@"', "sh"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, as scripts/bundle makes it."""
    file = tmp_path_factory.mktemp("made") / "muster.run"
    done = subprocess.run([ROOT / "scripts" / "bundle", "--python", VERSION, "-o", file], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{file}: "), done.stdout
    return file


@pytest.fixture(scope="module")
def small(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same bundle, installer and pip, of a `muster` that is one module: what installs and refuses does so
    whatever it installs, and compiling 2,900 modules takes most of an installation."""
    folder = tmp_path_factory.mktemp("small")
    held = contents(made)
    about, pip = json.loads(held["bundle.json"]), next(name
                                                       for name in held if name.startswith("wheels/pip-"))
    ours = wheel(folder, "cluster_muster", about["version"],
                 f"def main():\n    print({about['version']!r})\n")
    return packed(made, folder, {"bundle.json": held["bundle.json"], pip: held[pip],
                                 f"wheels/{ours.name}": ours.read_bytes()})


@pytest.fixture(scope="module")
def place(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installation in `opt muster` and the command in `bin`, which every test leaves
    working. Where that can be, it was made without what a head node may lack: a network, a home that can be
    written, the venv module, ensurepip and the system's packages."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "home").mkdir()
    standard = Path(os.__file__).parent
    hidden = [path for path in (standard / "venv", standard / "ensurepip", standard / "site-packages",
                                Path("/usr/lib/python3/dist-packages"))
              if path.is_dir()]
    hide = ("sh", "-ec", "".join(f"mount -t tmpfs none {path}; " for path in hidden) + 'exec "$@"', "sh")
    install(made, folder, () if why_not_apart() else (*NO_NETWORK, folder / "home", *hide))
    return folder


@pytest.fixture(scope="module")
def small_place(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installation of the small bundle."""
    folder = tmp_path_factory.mktemp("small_place")
    install(small, folder)
    return folder


@cache
def why_not_apart() -> str:
    probe = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    return f"a network namespace cannot be made here: {probe.stderr.strip()}" if probe.returncode else ""


@pytest.fixture
def no_network() -> None:
    require(not why_not_apart(), why_not_apart())


def bundle(file: Path, *words: object, before: tuple[object, ...] = (),
           **environment: str) -> subprocess.CompletedProcess[str]:
    """The bundle run by sh with a bare environment."""
    names = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHON": PYTHON, "HOME": "/nonexistent", **environment}
    command = [*before, "env", "-i", *(f"{key}={value}" for key, value in names.items()), "sh", file, *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, cwd="/")


def install(file: Path, folder: Path, before: tuple[object, ...] = ()) -> None:
    """Installs in `folder`."""
    done = bundle(file, "--prefix", folder / "opt muster", "--bin", folder / "bin", before=before,
                  HOME=str(folder / "home"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"is installed in {folder}/opt muster" in done.stdout and done.stderr == ""


def wheel(folder: Path, name: str, version: str, module: str = "", requires: tuple[str, ...] = ()) -> Path:
    """A wheel of one module, with the command `muster`."""
    about = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: redfish",
                *(f"Requires-Dist: {each}" for each in requires)]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{about}/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(f"{about}/WHEEL",
                         "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", f"[console_scripts]\nmuster = {name}:main\n")
        archive.writestr(f"{about}/RECORD", "")
    return Path(str(archive.filename))


def version_of(command: Path) -> str:
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refusal."""
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# ---- it installs and works


@pytest.mark.slow      # compiles 2,900 modules, which scripts/wheel installs in each run of CI
def test_it_installs_and_works_without_a_network_a_home_venv_ensurepip_and_packages_of_the_system(
    no_network: None, place: Path, tmp_path: Path,
) -> None:
    def muster(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*NO_NETWORK, str(place / "home"), "env", "-i", "PATH=/usr/bin:/bin", f"HOME={place}/home",
             f"MUSTER_STATE={tmp_path}/state",
             str(place / "bin" / "muster"), *words], capture_output=True, text=True,
            check=False, cwd=tmp_path)

    assert "0.1.0" in muster("--version").stdout
    assert "GPUs" in muster("explain", "gpu-count").stdout
    checked = muster("check", "--local", "--sku", "cpu-only", "--format", "json")
    assert checked.returncode in (0, 1, 3), checked.stderr
    document = json.loads(checked.stdout)
    assert document["schema"] == "muster.check/2" and sum(document["summary"].values()) == 1
    (tmp_path
     / "muster.yaml").write_text("version: 1\ngroups: {train: 'gpu[001-003]'}\nnodes: {'gpu[001-004]': {}}\n")
    assert "OK, 4 nodes, 1 group" in muster("inventory", "check").stdout
    assert muster("inventory", "nodes", "@train!gpu002").stdout == "gpu[001,003]\n"


@pytest.mark.slow
def test_it_has_an_environment_of_its_own(place: Path) -> None:
    release = (place / "opt muster" / "current").resolve()
    script = ("import sys, healthcheck, paramiko; print(sys.prefix != sys.base_prefix, healthcheck.__file__, "
              "paramiko.__file__, *sys.path, sep='\\n')")
    command = [release / "bin" / "python", "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.splitlines()
    assert said[0] == "True"
    assert all(path.startswith(str(release)) for path in said[1:3])
    assert [path for path in said[3:]
            if path.endswith("-packages")] == [str(release / "lib" / f"python{VERSION}" / "site-packages")]


@pytest.mark.parametrize(("which", "words", "expected"), [
    ("small", "--version", "0.1.0"), pytest.param("made", "explain", "gpu-count", marks=pytest.mark.slow)])
def test_an_ordinary_user_installs_it_at_home(which: str, words: str, expected: str,
                                              request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(which)
    require(os.geteuid() == 0, "only root can make a user")
    for python in (PYTHON, "/usr/bin/python3"):
        with tempfile.TemporaryDirectory() as name, throwaway_user() as user:
            folder = Path(name)
            folder.chmod(0o755)
            home = folder / "home"
            home.mkdir()
            shutil.chown(home, user)
            file = shutil.copy(made, folder / "muster.run")
            environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHON": python}
            how = {"user": user, "group": user, "extra_groups": [], "env": environment, "cwd": "/",
                   "capture_output": True, "text": True}
            done = subprocess.run(["sh", file], check=False, **how)    # type: ignore[call-overload]
            if "needs Python" in done.stderr:
                continue    # an interpreter in somebody's home, where others may not look
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"export PATH={home}/.local/bin:$PATH" in done.stdout
            said = subprocess.run([home / ".local/bin/muster", words], check=False,
                                  **how)  # type: ignore[call-overload]
            assert said.returncode == 0 and expected in said.stdout, said.stderr
            elsewhere = subprocess.run(["sh", file, "--prefix", "/opt/muster", "--bin", str(home / "bin")],
                                       check=False, **how)    # type: ignore[call-overload]
            assert "may not write to /opt" in refusal(elsewhere)
            return
    require(False, f"no Python {VERSION} that an ordinary user may run")


# ---- again, and interrupted


@pytest.mark.slow
def test_a_kill_leaves_the_old_one_working_and_the_next_takes_its_place_and_keeps_it_for_who_runs_it(
    small: Path, tmp_path: Path,
) -> None:
    install(small, tmp_path)
    releases, current = tmp_path / "opt muster" / "releases", tmp_path / "opt muster" / "current"
    before = current.resolve()

    def killed(number: signal.Signals) -> tuple[int, bytes]:
        second = subprocess.Popen(["sh", small, "--prefix", tmp_path / "opt muster", "--bin",
                                   tmp_path / "bin"], env={**os.environ, "PYTHON": PYTHON},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_until(lambda: [path for path in set(releases.iterdir()) - {before}
                                if any(path.glob("lib/python*/site-packages/*"))],
                       what="pip at work")
        finally:
            os.killpg(second.pid, number)
            output, _ = second.communicate(timeout=20)
        assert current.resolve() == before
        assert "0.1.0" in version_of(tmp_path / "bin" / "muster")
        return second.returncode, output

    code, output = killed(signal.SIGTERM)
    assert (code, output.count(b"interrupted; what was installed before still is"),
            set(releases.iterdir())) == (130, 1, {before})
    killed(signal.SIGKILL)
    assert len(set(releases.iterdir()) - {before}) == 1
    (releases / "0.0.9-older").mkdir()
    install(small, tmp_path)
    second_one = current.resolve()
    assert second_one != before and set(releases.iterdir()) == {before, second_one}
    assert "0.1.0" in version_of(tmp_path / "bin" / "muster")


def test_a_first_installation_that_fails_leaves_nothing(small: Path, tmp_path: Path) -> None:
    broken = repacked(small, tmp_path,
                      {name: b"not a wheel" for name in contents(small) if "cluster_muster" in name})
    done = bundle(broken, "--prefix", tmp_path / "muster", "--bin", tmp_path / "bin")
    assert "nothing was changed" in refusal(done)
    assert not (tmp_path / "muster").exists() and not (tmp_path / "bin").exists()


# ---- refused


def flipped(file: Path, to: Path, at: int) -> Path:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    to.write_bytes(data)
    return to


def test_a_copy_with_one_changed_bit_is_refused_before_anything_is_unpacked(small: Path,
                                                                            tmp_path: Path) -> None:
    data = small.read_bytes()
    start = data.index(MARK)
    places = random.Random(1)
    ways = cycle(((), ("--check",), ("--list",)))
    for at in (*3 * (data.index(b"be installed without"),), start + 600, start + len(MARK) + 100,
               len(data) - 40, len(data) - 1,
               *(places.randrange(start, len(data)) for _ in range(4))):
        done = bundle(flipped(small, tmp_path / "copy.run", at), *next(ways), "--prefix", tmp_path / "muster",
                      "--bin", tmp_path / "bin")
        assert "damaged or cut short" in refusal(done), at
    assert not (tmp_path / "muster").exists()


def test_a_copy_with_one_changed_bit_in_its_head_installs_nothing(small: Path, tmp_path: Path) -> None:
    start = small.read_bytes().index(MARK)
    places = random.Random(2)
    for _ in range(6):
        at = places.randrange(start)
        done = bundle(flipped(small, tmp_path / "copy.run", at), "--prefix", tmp_path / "muster", "--bin",
                      tmp_path / "bin")
        assert done.returncode != 0, at
    assert not (tmp_path / "muster").exists()


@pytest.mark.parametrize("kept", [0.001, 0.5, 0.999])
def test_a_copy_that_is_cut_is_refused(small: Path, tmp_path: Path, kept: float) -> None:
    data = small.read_bytes()
    (tmp_path / "cut.run").write_bytes(data[:max(int(len(data) * kept), data.index(MARK) + 100)])
    assert "damaged or cut short" in refusal(bundle(tmp_path / "cut.run", "--prefix", tmp_path / "muster"))


def test_a_folder_of_somebody_else_is_not_touched(small: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "muster"
    theirs.mkdir()
    (theirs / "data").write_text("theirs")
    assert f"{theirs} holds something else" in refusal(bundle(small, "--prefix", theirs, "--bin",
                                                              tmp_path / "bin"))
    assert [path.name for path in theirs.iterdir()] == ["data"]
    assert "is not a folder" in refusal(bundle(small, "--prefix", theirs / "data", "--bin", tmp_path / "bin"))


@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_a_command_of_somebody_else_is_not_replaced(small: Path, tmp_path: Path, kind: str) -> None:
    theirs = tmp_path / "bin" / "muster"
    theirs.parent.mkdir()
    if kind == "file":
        theirs.write_text("theirs")
    else:
        theirs.symlink_to("/bin/sh" if kind == "link" else "/nowhere")
    assert f"{theirs} is something else" in refusal(bundle(small, "--prefix", tmp_path / "muster", "--bin",
                                                           tmp_path / "bin"))
    assert not (tmp_path / "muster").exists()


def test_a_disk_without_room_is_refused_beforehand(small: Path, no_network: None, tmp_path: Path) -> None:
    full = (*APART, "sh", "-ec", f'mount -t tmpfs -o size=8m none {tmp_path}; exec "$@"', "sh")
    assert re.search(rf"needs \d+ MiB in {tmp_path}/muster, and [78] MiB are free", refusal(
        bundle(small, "--prefix", tmp_path / "muster", "--bin", tmp_path / "bin", before=full)))


def test_another_machine_is_refused(small: Path, tmp_path: Path) -> None:
    assert "this is a bundle for" in refusal(bundle(repacked(small, tmp_path, about={"arch": "sparc64"}),
                                                    "--check"))


def test_another_python_is_refused(small: Path, tmp_path: Path) -> None:
    for python in ("/bin/false", "/no such/python3", "/no\tsuch"):
        assert f"needs Python {VERSION}" in refusal(bundle(small, "--check", PYTHON=python))


def test_two_installations_at_once_do_not_meet(small: Path, small_place: Path) -> None:
    prefix = small_place / "opt muster"
    with (prefix / ".muster-bundle").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another installation" in refusal(bundle(small, "--prefix", prefix, "--bin",
                                                        small_place / "bin"))


@pytest.mark.parametrize("words", [("--nonsense",), ("--prefix",), ("word",)])
def test_a_wrong_word_is_one_line(small: Path, words: tuple[str, ...]) -> None:
    assert "see --help" in refusal(bundle(small, *words))


# ---- what is in it


def test_check_list_and_help_install_nothing(made: Path, tmp_path: Path) -> None:
    for words, expected in ((("--check",), "whole, and fits"), (("--list",), "wheels/pip-"),
                            (("--help",), "C compiler")):
        done = bundle(made, *words, "--prefix", tmp_path / "muster", "--bin", tmp_path / "bin")
        assert done.returncode == 0 and expected in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def contents(file: Path) -> dict[str, bytes]:
    """The payload, by name."""
    data = file.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data[data.index(MARK) + len(MARK):-65])) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}     # type: ignore[union-attr]


def packed(file: Path, folder: Path, held: dict[str, bytes]) -> Path:
    """A whole bundle with the head of `file` and these contents."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, data in held.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    whole = file.read_bytes()
    body = whole[:whole.index(MARK) + len(MARK)] + target.getvalue()
    (folder / "other.run").write_bytes(body + f"{hashlib.sha256(body).hexdigest()}\n".encode())
    return folder / "other.run"


def repacked(file: Path, folder: Path, changed: dict[str, bytes] | None = None,
             about: dict[str, object] | None = None) -> Path:
    """A whole bundle with other contents."""
    held = {**contents(file), **(changed or {})}
    held["bundle.json"] = json.dumps({**json.loads(held["bundle.json"]), **(about or {})}).encode()
    return packed(file, folder, held)


def test_what_is_required_under_one_python_only_is_there_for_it(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """pip reads markers with the Python that runs it, so that cryptography's `python_full_version < "3.11"`
    is lost on a newer one."""
    other = "3.10" if VERSION != "3.10" else "3.12"
    index, wheels = tmp_path / "index", tmp_path / "wheels"
    index.mkdir()
    wheels.mkdir()
    for name, *requires in (("pip",), ("first", f'second; python_full_version == "{other}.*"',
                                       f'third; python_version != "{other}"'),
                            ("second",), ("third",)):
        wheel(index, name, "1", requires=tuple(requires))
    ours = wheel(tmp_path, "cluster_muster", "1", requires=("first",))
    for key, value in {"NO_INDEX": "1", "FIND_LINKS": str(index), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{key}", value)
    script = runpy.run_path(str(ROOT / "scripts" / "bundle"))
    script["download"](wheels, ours, other, "x86_64")
    assert {"first-1-py3-none-any.whl", "second-1-py3-none-any.whl"} <= {path.name
                                                                         for path in wheels.iterdir()}


@pytest.mark.slow
def test_it_is_made_for_every_python(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts" / "bundle", "-o", tmp_path / "muster.run"], check=True)
    held = contents(tmp_path / "muster.run")
    assert [name for name in held if "typing_extensions" in name]       # cryptography's, under 3.10 only
    for python in json.loads(held["bundle.json"])["pythons"]:
        assert [name for name in held if f"cp{python.replace('.', '')}-" in name], python
    assert "whole, and fits" in bundle(tmp_path / "muster.run", "--check").stdout


@pytest.mark.parametrize(("words", "expected"), [
    (("--python", "3.9"), "--python 3.9: must be a list of 3.10"), (("--arch", "vax"), "'vax'"),
    (("-o", "/nowhere/x.run"), "no such folder")])
def test_a_bundle_that_cannot_be_made_is_refused_in_one_line(words: tuple[str, ...], expected: str) -> None:
    done = subprocess.run([ROOT / "scripts" / "bundle", *words], capture_output=True, text=True, check=False)
    assert (done.returncode == 2 and expected in done.stderr.splitlines()[-1]
            and "Traceback" not in done.stderr)


def test_it_holds_the_rules_and_nothing_of_where_it_was_made(made: Path, small_place: Path) -> None:
    held = contents(made)
    ours = next(data for name, data in held.items() if "cluster_muster" in name)
    with zipfile.ZipFile(io.BytesIO(ours)) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    assert "healthcheck/_rules/gpu.yaml" in files and "healthcheck/_rules/sku/hgx-h100.yaml" in files
    assert "healthcheck/scrub/vocabulary.txt" in files
    head = made.read_bytes()[:made.read_bytes().index(MARK)]
    settings = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True,
                              check=False).stdout
    settings += " ".join(value for key, value in os.environ.items() if key.startswith("PIP_"))
    places = {part.netloc or part.path.rstrip("/")
              for part in map(urlsplit, re.findall(r"[a-z+]+://[^\s'\"]+", settings))}
    release = (small_place / "opt muster" / "current").resolve()
    written = [path for path in release.rglob("*.dist-info/*")
               if path.name in ("RECORD", "INSTALLER", "REQUESTED")]
    for text in (head, held["bundle.json"], *files.values(), (release / "pyvenv.cfg").read_bytes(),
                 *(path.read_bytes() for path in written)):
        assert not [place for place in (*places, str(ROOT)) if place.encode() in text]
    assert not list(release.rglob("direct_url.json")) and not list(release.rglob("pip.conf"))
