"""Certificates for tests of TLS."""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and this name that signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.timezone.utc)
    made_ = (x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
             .serial_number(x509.random_serial_number()).not_valid_before(
                 now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=9))
             .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")),
                                                         x509.DNSName(name)]), critical=False)
             .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
                 key, hashes.SHA256()))
    at, key_at = folder / f"{name}.pem", folder / f"{name}.key"
    at.write_bytes(made_.public_bytes(serialization.Encoding.PEM))
    key_at.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                         serialization.NoEncryption()))
    return at, key_at
