"""Certificates for a rack's controllers, signed by an authority of the rack's own."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs; its own certificate is at `path`."""

    def __init__(self, path: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("rack authority")
        usage = x509.KeyUsage(key_cert_sign=True, crl_sign=True, digital_signature=False,
                              content_commitment=False, key_encipherment=False,
                              data_encipherment=False, key_agreement=False, encipher_only=False,
                              decipher_only=False)
        made = _builder(self._name, self._name,
                        self._key.public_key()).add_extension(x509.BasicConstraints(True, None),
                                                              critical=True) \
            .add_extension(usage, critical=True).add_extension(self._identifier(),
                                                               critical=False).sign(self._key,
                                                                                    hashes.SHA256())
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def certificate(self, path: Path, address: str) -> tuple[Path, str]:
        """A key and its certificate for an address, in one file; and the certificate's SHA-256."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(_name(address), self._name, key.public_key()) \
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
                           critical=False) \
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                           critical=False) \
            .sign(self._key, hashes.SHA256())
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption())
                         + made.public_bytes(serialization.Encoding.PEM))
        return path, made.fingerprint(hashes.SHA256()).hex()

    def _identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name,
             key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.timezone.utc)
    return x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key).serial_number(
        x509.random_serial_number()) \
        .not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=365))
