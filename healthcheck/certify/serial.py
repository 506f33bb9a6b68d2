"""Serial numbers of what the head signs: each higher than all before it, whatever is killed and however clocks are set."""

from __future__ import annotations

import json
from pathlib import Path

from healthcheck.certify.pair import replace_synced
from inventory.errors import CertificateError

_FILE = "serial.json"
_MOST = 1 << 53         # what every reader of JSON holds exactly


def next_serial(folder: Path, now: float, least: int = 0) -> int:
    """A number that was never given before, and is not again; for who holds the folder's lock. Raises CertificateError, OSError.

    It is not under the time in seconds, nor under `least` + 1: so a head whose state folder was lost, or put back from an old copy, goes on
    above what nodes have seen.
    """
    reserved, written = _read(folder)
    serial = max(reserved + 1, least + 1, int(now))
    if serial >= _MOST:
        raise CertificateError(f"{folder / _FILE}: no serial number is left: this clock, or one before, was far ahead")
    _write(folder, serial, written)     # before it is used
    return serial


def written_serial(folder: Path, serial: int) -> None:
    """Remembers that what has this number stands in the folder."""
    _write(folder, max(serial, _read(folder)[0]), serial)


def newest_written(folder: Path) -> int:
    """The number of the newest that stood in the folder, 0 for none; one that is older was put back. Raises CertificateError."""
    return _read(folder)[1]


def _read(folder: Path) -> tuple[int, int]:
    path = folder / _FILE
    try:
        found = json.loads(path.read_bytes())
        numbers = found["reserved"], found["written"]
        if not all(type(number) is int and 0 <= number < _MOST for number in numbers):
            raise ValueError
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CertificateError(f"{path}: cannot be read; which numbers were given is not known. Without it the time is the next number: "
                               f"if no clock was ahead, rm {path}") from None
    return numbers


def _write(folder: Path, reserved: int, written: int) -> None:
    data = json.dumps({"reserved": reserved, "written": written}).encode() + b"\n"
    replace_synced(str(folder / _FILE), data, 0o600)
