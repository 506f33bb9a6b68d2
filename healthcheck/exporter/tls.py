"""The exporter's TLS: a certificate and its key, reloaded on renewal; client certificates are optional."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.exporter.security import Security
from inventory.errors import UsageError

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class TlsSettings:
    """A certificate with its chain, its key and the authorities of clients: each a file, or PEM as text.

    Without `required` a client may have no certificate. `names` are those of which its certificate must have
    one, in the form of `names_of`; none allow every one. `ciphers` is OpenSSL's list for TLS 1.2.
    """

    certificate: Path | str
    key: Path | str
    clients: Path | str | None = None
    required: bool = True
    names: frozenset[str] = frozenset()
    least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""
    ours_first: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """The files among them."""
        return tuple(one for one in (self.certificate, self.key, self.clients) if isinstance(one, Path))

    def load(self) -> ssl.SSLContext:
        """A context with what the files hold now; raises UsageError if they cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self.least, self.most
        if self.ours_first:
            context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
        else:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        try:
            with _file(self.certificate) as certificate, _file(self.key) as key:
                context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise UsageError(f"{_shown(self.certificate)} and {_shown(self.key)} are not a certificate and "
                             f"its key: {_error_text(error)}") from None
        if self.clients is not None:
            try:
                with _file(self.clients) as clients:
                    context.load_verify_locations(clients)
            except (OSError, ValueError) as error:
                raise UsageError(f"{_shown(self.clients)}: is no certificate of an authority: "
                                 f"{_error_text(error)}") from None
            context.verify_mode = ssl.CERT_REQUIRED if self.required else ssl.CERT_OPTIONAL
        if self.ciphers:
            try:
                context.set_ciphers(self.ciphers)
            except ssl.SSLError:
                raise UsageError(f"OpenSSL has none of these cipher suites here: {self.ciphers}") from None
        return context

    def accepts(self, certificate: Mapping[str, Any]) -> bool:
        """Whether one of a client certificate's names is allowed."""
        return not self.names or not self.names.isdisjoint(names_of(
            value for _, value in certificate.get("subjectAltName", ())))


class Tls(Security):
    """Raises UsageError if certificate and key cannot be used.
    Renewed ones apply to the next connection, once both fit."""

    encrypted = True

    def __init__(self, certificate: Path, key: Path, clients: Path | None = None) -> None:
        self._settings = TlsSettings(certificate, key, clients)
        self._stamp = stamped(self._settings.files)
        self._context = self._settings.load()

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        stamp = stamped(self._settings.files)
        if stamp != self._stamp:
            self._stamp = stamp     # report one that does not fit only once
            try:
                self._context = self._settings.load()
            except UsageError as error:
                print(f"muster: exporter: {error}; going on with the one before", file=sys.stderr)  # noqa: T201
        return self._context


def stamped(files: Iterable[Path]) -> Stamp:
    """What changes when one of the files does."""
    return tuple(map(_stamp, files))


def names_of(values: Iterable[object]) -> frozenset[str]:
    """Names of certificates (DNS, IP, e-mail, URI), each address in its one form."""
    return frozenset(map(_name, map(str, values)))


def _name(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        return value


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_ino, found.st_size


@contextlib.contextmanager
def _file(held: Path | str) -> Iterator[str]:
    """A path under which OpenSSL reads this; text is in memory only."""
    if isinstance(held, Path):
        yield str(held)
        return
    number = os.memfd_create("pem")
    try:
        with open(number, "w", encoding="utf-8", closefd=False) as file:
            file.write(held)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _shown(held: Path | str | None) -> str:
    return str(held) if isinstance(held, Path) else "the text"


def _no_password() -> str:
    """Keeps OpenSSL from asking at the terminal."""
    return ""


def _error_text(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error).lower().replace(
        "_", " ")
