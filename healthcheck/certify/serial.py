"""Serial numbers for what the head signs: always rising, despite kills and clock changes."""

from __future__ import annotations

import json
from pathlib import Path

from healthcheck.certify.pair import replace_synced
from inventory.errors import CertificateError

_FILE = "serial.json"
_MOST = 1 << 53         # exact in every JSON reader


def next_serial(folder: Path, now: float, least: int = 0) -> int:
    """A new unique number; the caller holds the folder's lock. Raises CertificateError, OSError. At least the
    time in seconds and `least` + 1, so that a lost or restored state folder continues above what nodes have
    seen."""
    reserved, written = _read(folder)
    serial = max(reserved + 1, least + 1, int(now))
    if serial >= _MOST:
        raise CertificateError(
            f"{folder / _FILE}: no serial number is left: this clock, or one before, was far ahead")
    _write(folder, serial, written)     # before it is used
    return serial


def written_serial(folder: Path, serial: int) -> None:
    """Records that the document with this number is in the folder."""
    _write(folder, max(serial, _read(folder)[0]), serial)


def newest_written(folder: Path) -> int:
    """The highest number written to the folder, 0 for none: a document there with a lower one was restored.
    Raises CertificateError."""
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
        raise CertificateError(f"{path}: cannot be read, so the given numbers are unknown. Without the file "
                               f"the time is the next number: if no clock was ahead, rm {path}") from None
    return numbers


def _write(folder: Path, reserved: int, written: int) -> None:
    data = json.dumps({"reserved": reserved, "written": written}).encode() + b"\n"
    replace_synced(str(folder / _FILE), data, 0o600)
