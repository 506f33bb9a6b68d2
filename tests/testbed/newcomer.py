"""Plain machines as a newcomer has them: each behind an sshd of its own, reached by its name in ~/.ssh/config, and nowhere declared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.farm import machine_files
from tests.testbed.sshd import Sshd, make_key, sshd

Files = dict[str, str]


@dataclass(frozen=True)
class Machines:
    """Running machines by name, and the lines of an ssh_config that lead to them."""

    servers: Mapping[str, Sshd]
    config: str


def read_only_root(files: Files) -> None:
    """Plants a root file system that its kernel mounted read-only after an error."""
    mounts = "proc/self/mountinfo"
    files[mounts] = files[mounts].replace("rw,relatime", "ro,relatime").replace("rw,errors", "ro,errors")


@contextmanager
def machines(folder: Path, names: Sequence[str], plants: Mapping[str, Callable[[Files], None]]) -> Iterator[Machines]:
    """Machines of these names in `folder`; what `plants` has for one changes its files before it starts."""
    folder.mkdir(parents=True, exist_ok=True)
    key = make_key(folder / "newcomer")
    servers: dict[str, Sshd] = {}
    with ExitStack() as stack:
        for name in names:
            files = machine_files(name, random.Random(name))
            plants.get(name, lambda _: None)(files)
            place = folder / name
            tree = place / "tree"
            for path, text in files.items():
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                (tree / path).write_text(text)
            (tree / "run").mkdir()
            settings = f"SetEnv MUSTER_ROOT={tree} HOME={place / 'home'} PATH=/usr/local/bin:/usr/bin:/bin\n"
            servers[name] = stack.enter_context(sshd(place, config=settings, user_key=key))
        yield Machines(servers, "".join(
            f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n User {server.user}\n IdentityFile {key}\n"
            for name, server in servers.items()))
