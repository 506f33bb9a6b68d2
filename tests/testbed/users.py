"""A user of this machine who exists for one test; only root can make one."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def throwaway_user(home: Path | None = None) -> Iterator[str]:
    """The name of a new user without password and rights, and without a home unless one is named, which is
    not made; afterwards the user, and what sudo allowed it, are gone."""
    name = f"t{secrets.token_hex(4)}"
    where = ["--home-dir", str(home)] if home is not None else []
    subprocess.run(["useradd", "--no-create-home", *where, "--shell", "/bin/sh", "--password", "*", name],
                   check=True)
    try:
        yield name
    finally:
        _sudoers(name).unlink(missing_ok=True)
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


def allow_sudo(name: str, *rules: str) -> None:
    """Sudo follows these rules for the user; "{}" in them is its name."""
    path = _sudoers(name)
    path.write_text("".join(f"{rule.format(name)}\n" for rule in rules))
    path.chmod(0o440)


def _sudoers(name: str) -> Path:
    return Path("/etc/sudoers.d") / name
