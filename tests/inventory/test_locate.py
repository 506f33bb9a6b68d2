"""Where the inventory and the state are looked for, in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inventory.errors import InventoryError, MusterError
from inventory.locate import find_inventory, state_dir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder and an empty working folder, and none of our variables."""
    for name in ("MUSTER_INVENTORY", "MUSTER_STATE", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("version: 1\n")
    return path


def test_option_then_variable_then_working_folder_then_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert find_inventory(None) in (None, Path("/etc/muster/muster.yaml"))
    user = made(home / ".config/muster/muster.yaml")
    assert find_inventory(None) == user
    made(Path("muster.yaml"))
    assert find_inventory(None) == Path("muster.yaml")
    monkeypatch.setenv("MUSTER_INVENTORY", str(made(tmp_path / "variable.yaml")))
    assert find_inventory(None) == tmp_path / "variable.yaml"
    assert find_inventory(str(made(tmp_path / "option.yaml"))) == tmp_path / "option.yaml"


def test_xdg_config_home_moves_the_users_file_unless_it_is_relative(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = made(home / ".config/muster/muster.yaml")
    other = made(tmp_path / "xdg/muster/muster.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert find_inventory(None) == other
    monkeypatch.setenv("XDG_CONFIG_HOME", "xdg")
    assert find_inventory(None) == user


@pytest.mark.parametrize("option", [True, False])
def test_a_named_inventory_that_is_not_there_is_never_passed_over(
    option: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:
    made(Path("muster.yaml"))
    if not option:
        monkeypatch.setenv("MUSTER_INVENTORY", "absent.yaml")
    with pytest.raises(MusterError, match=r"absent\.yaml: no such file"):
        find_inventory("absent.yaml" if option else None)


def test_an_empty_option_is_an_error_since_a_script_forgot_to_set_it() -> None:
    made(Path("muster.yaml"))
    with pytest.raises(MusterError, match="--inventory is empty"):
        find_inventory("")
    with pytest.raises(MusterError, match="--state is empty"):
        state_dir("")


def test_a_home_folder_that_no_one_knows_is_no_traceback() -> None:
    with pytest.raises(MusterError, match="no such file"):
        find_inventory("~nobody-of-this-name/m.yaml")


def test_state_is_kept_where_it_is_reported_else_below_home_or_for_root_below_var(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_dir(None) == Path("/var/lib/muster")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert state_dir(None) == home / ".local/state/muster"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_dir(None) == tmp_path / "xdg/muster"
    monkeypatch.setenv("MUSTER_STATE", str(tmp_path / "variable"))
    assert state_dir(None) == tmp_path / "variable"
    assert state_dir("~/option") == home / "option"


def test_a_state_folder_that_is_a_file_is_refused() -> None:
    made(Path("file"))
    with pytest.raises(MusterError, match="not a folder"):
        state_dir("file")


@pytest.mark.parametrize("place", ["file", "folder"])
def test_an_inventory_that_merely_lies_here_must_not_be_writable_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str,
) -> None:
    monkeypatch.delenv("MUSTER_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes: {a: {}}\n")
    assert find_inventory() == Path("muster.yaml")
    (tmp_path / "muster.yaml" if place == "file" else tmp_path).chmod(0o777)
    with pytest.raises(InventoryError,
                       match=r"is writable by others; if you trust it, name it: --inventory muster\.yaml"):
        find_inventory()
    assert find_inventory("muster.yaml") == Path("muster.yaml")
