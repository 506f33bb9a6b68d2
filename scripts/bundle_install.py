"""Installs muster from a bundle without a network; `scripts/bundle` puts this program into the bundle's head,
where sh starts it.

Every installation is a new folder PREFIX/releases/VERSION-XXXX; PREFIX/current, a link, is turned to it in
one step once it has run. So a kill at any moment leaves the old one working. Its environment is made by hand
(pyvenv.cfg, a link to the interpreter), because Debian's python3 comes without ensurepip; pip runs from its
wheel. Standard library only, Python 3.10 or newer.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

MARK = ".muster-bundle"
GLIBC = (2, 28)
HELP = """Installs muster on a machine without a network, in an environment of its own.

    sh FILE                    as root to /opt/cluster-muster, with /usr/local/bin/muster;
                               as anybody else to ~/.local/share/muster, with ~/.local/bin/muster
    sh FILE --prefix /apps/muster --bin /apps/bin

Again, or with a newer bundle: upgrades in place. To remove: delete the prefix and the link.
PYTHON=/usr/bin/python3.12 chooses the interpreter.
`muster demo` also needs a C compiler and OpenSSH's server, which are not in here.

Exit: 0 done, 2 refused and nothing changed, 130 interrupted."""


class Refused(Exception):
    """One line for a person; nothing was changed."""


def main(file: str, words: list[str]) -> int:
    options = arguments(file, words)
    if options.help:
        print(options.usage)
        return 0
    os.umask(0o022)     # root's may be stricter, and everybody is to run it
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        contents = read(file)
        about = json.loads(contents["bundle.json"])
        if options.list:
            for name, data in sorted(contents.items()):
                print(f"{len(data):>10}  {name}")
            return 0
        python = fits(about)
        place = Place(Path(options.prefix), Path(options.bin), about)
        place.check()
        if options.check:
            print(f"{file}: whole, and fits: muster {about['version']} with Python {python} would be "
                  f"installed in {place.prefix}")
            return 0
        install(place, contents)
    except Refused as refused:
        print(f"{file}: {refused}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{file}: {error.filename or options.prefix}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{file}: interrupted; what was installed before still is", file=sys.stderr)
        return 130
    return 0


def interrupted(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


class Usage(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see --help", file=sys.stderr)
        raise SystemExit(2)


def arguments(file: str, words: list[str]) -> argparse.Namespace:
    root = os.geteuid() == 0
    home = Path(os.path.expanduser("~"))    # noqa: PTH111  (Path.expanduser raises where there is no home)
    parser = Usage(prog=file, description=HELP, add_help=False, allow_abbrev=False,
                   formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", metavar="DIR",
                        default="/opt/cluster-muster" if root else str(home / ".local/share/muster"),
                        help="where it is installed; must be new, empty, or muster's [%(default)s]")
    parser.add_argument("--bin", metavar="DIR",
                        default="/usr/local/bin" if root else str(home / ".local/bin"),
                        help="where the command is linked [%(default)s]")
    parser.add_argument("--check", action="store_true",
                        help="only say whether the file is whole and fits this machine")
    parser.add_argument("--list", action="store_true", help="only list what is in it, with sizes in bytes")
    parser.add_argument("--help", "-h", action="store_true", help="this text")
    options = parser.parse_args(words)
    options.usage = parser.format_help()
    options.prefix = os.path.abspath(options.prefix)    # noqa: PTH100  (keeps links)
    options.bin = os.path.abspath(options.bin)          # noqa: PTH100
    return options


def read(file: str) -> dict[str, bytes]:
    """What is in the bundle, by name. The last 65 bytes are the SHA-256 of all before them, so that no byte
    can change unseen."""
    data = Path(file).read_bytes()
    body, digest = data[:-65], data[-65:]
    if digest != f"{hashlib.sha256(body).hexdigest()}\n".encode():
        raise Refused("this copy is damaged or cut short (its checksum does not hold); copy it again. "
                      "Nothing was unpacked")
    start = body.index(b"\n#PAYLOAD#\n") + len("\n#PAYLOAD#\n")
    contents: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(body[start:]), mode="r:") as tar:
        for member in tar:
            held = tar.extractfile(member)
            contents[member.name] = held.read() if held is not None else b""
    return contents


def fits(about: dict[str, Any]) -> str:
    """This interpreter's version, if machine, C library and interpreter are what the bundle is for; raises
    Refused."""
    machine = os.uname().machine
    if machine != about["arch"]:
        raise Refused(f"this is a bundle for {about['arch']}, and this machine is {machine}")
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or "another"      # "glibc 2.36"
    except (ValueError, OSError):
        library = "another"
    numbers = library.removeprefix("glibc ").split(".")
    if not all(map(str.isdigit, numbers)) or tuple(map(int, numbers)) < GLIBC:
        raise Refused(
            f"needs glibc {'.'.join(map(str, GLIBC))} or newer, and this machine's C library is {library}")
    python = ".".join(map(str, sys.version_info[:2]))
    if python not in about["pythons"]:
        raise Refused(f"this is a bundle for Python {', '.join(about['pythons'])}, and {sys.executable} is "
                      f"{python}; set PYTHON to another")
    return python


class Place:
    """Where to install: PREFIX with its releases, and BIN with the link."""

    def __init__(self, prefix: Path, bin_: Path, about: dict[str, Any]) -> None:
        self.prefix, self.about = prefix, about
        self.releases, self.current, self.link = prefix / "releases", prefix / "current", bin_ / "muster"
        self.command = self.current / "bin" / "muster"

    def check(self) -> None:
        """Raises Refused where something else is in the way, where we may not write, and where there is no
        room."""
        if self.prefix.exists() and not self.prefix.is_dir():
            raise Refused(f"{self.prefix} is not a folder; choose another --prefix")
        if self.prefix.is_dir() and any(self.prefix.iterdir()) and not (self.prefix / MARK).is_file():
            raise Refused(f"{self.prefix} holds something else; choose another --prefix, or empty it")
        # lexists: a link that leads nowhere is somebody's too.
        if os.path.lexists(self.link) and not (
                self.link.is_symlink() and os.readlink(self.link) == str(self.command)):     # noqa: PTH115
            raise Refused(f"{self.link} is something else; move it away, or choose another --bin")
        for option, folder in (("--prefix", self.prefix), ("--bin", self.link.parent)):
            there = nearest(folder)
            if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
                raise Refused(f"may not write to {there}; choose another {option}, or become root")
        room, free = self.about["room"], shutil.disk_usage(nearest(self.prefix)).free
        if free < room:
            raise Refused(f"needs {room >> 20} MiB in {self.prefix}, and {free >> 20} MiB are free there")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Makes the prefix ours, and holds it; raises Refused while another installation does."""
        self.prefix.mkdir(parents=True, exist_ok=True)
        with (self.prefix / MARK).open("w") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"another installation to {self.prefix} is at work") from None
            self.releases.mkdir(exist_ok=True)
            yield


def nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def install(place: Place, contents: dict[str, bytes]) -> None:
    """Afterwards the new release is the current one, and the one before is kept for whoever still runs it."""
    about = place.about
    new_prefix = not place.prefix.exists()
    with place.alone():
        before = place.current.resolve() if place.current.is_symlink() else None
        release = Path(tempfile.mkdtemp(prefix=f"{about['version']}-", dir=place.releases))
        try:
            release.chmod(0o755)
            fill(release, contents, about["version"], about["extras"])
            turn(place.current, f"releases/{release.name}")
        except BaseException:
            shutil.rmtree(place.prefix if new_prefix else release, ignore_errors=True)
            raise
        place.link.parent.mkdir(parents=True, exist_ok=True)
        turn(place.link, str(place.command))
        for other in place.releases.iterdir():
            if other not in (release, before):
                shutil.rmtree(other, ignore_errors=True)
    size = sum(path.lstat().st_size for path in release.rglob("*"))
    python = sys.version.split()[0]
    print(f"muster {about['version']} is installed in {place.prefix} ({size >> 20} MiB, Python {python}); "
          f"run {place.link}")
    if str(place.link.parent) not in os.environ.get("PATH", "").split(":"):
        print(f"{place.link.parent} is not on PATH; add it: export PATH={place.link.parent}:$PATH")


def fill(release: Path, contents: dict[str, bytes], version: str, extras: list[str]) -> None:
    """Makes the environment in `release`, installs the wheels into it, and runs the command once; raises
    Refused."""
    base = Path(sys.executable).resolve()
    python = release / "bin" / "python"
    packages = release / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    python.parent.mkdir()
    python.symlink_to(base)
    (release / "lib64").symlink_to("lib")     # where Red Hat's Python looks
    (release / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {sys.version.split()[0]}\n")
    unpacked = release / "unpacked"
    unpacked.mkdir()
    for name, data in contents.items():
        (unpacked / Path(name).name).write_bytes(data)
    pip = next(unpacked.glob("pip-*.whl"))
    path = os.environ.get("PATH", os.defpath)
    environment = {"PATH": path, "HOME": str(unpacked), "TMPDIR": str(unpacked),
                   "PIP_CONFIG_FILE": os.devnull, "LC_ALL": "C.UTF-8"}
    run([python, "-I", f"{pip}/pip", "install", "--isolated", "--quiet", "--no-input", "--no-index",
         "--find-links", unpacked,
         "--no-cache-dir", "--disable-pip-version-check", "--no-warn-script-location",
         f"cluster-muster[{','.join(extras)}]=={version}"], environment)
    shutil.rmtree(unpacked)
    said = run([release / "bin" / "muster", "--version"], {"PATH": path, "HOME": str(release)})
    if version not in said:
        raise Refused(f"the new installation says {said!r} for its version")
    sync(release)     # all of it is on the disk before anything leads to it


def sync(folder: Path) -> None:
    """Waits until the file system that holds `folder` is on the disk; sync(2) would wait for all others too,
    a dead mount among them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)


def run(command: list[Any], environment: dict[str, str]) -> str:
    """What the command printed; raises Refused with its last words when it fails. It ends with us, at a
    signal too."""
    with subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", cwd="/") as child:
        try:
            output, _ = child.communicate()
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        lines = [line for line in output.splitlines() if line.strip()] or ["it said nothing"]
        raise Refused(f"{Path(command[0]).name} failed: {lines[-1].strip()[:300]}; nothing was changed")
    return output


def turn(link: Path, target: str) -> None:
    """The link leads to `target`, without a moment in which there is none."""
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
