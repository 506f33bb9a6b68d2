"""Makes ed25519 keys in OpenSSH's file formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


@dataclass(frozen=True)
class KeyPair:
    """A private key in OpenSSH's format, and the public one as in known_hosts: "ssh-ed25519 AAAA..."."""

    private: bytes
    public: str

    @classmethod
    def new(cls) -> KeyPair:
        """A fresh random key without a passphrase."""
        key = Ed25519PrivateKey.generate()
        return cls(
            key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
            key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
        )

    def save(self, path: Path) -> None:
        """Writes the private key, readable by its owner alone from the first moment on."""
        path.touch(mode=0o600)
        path.write_bytes(self.private)
