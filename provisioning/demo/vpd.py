"""What the maker of a PCI card wrote onto it, as sysfs shows it (format: healthcheck.facts.vpd)."""

from __future__ import annotations

_NAME, _READ_ONLY, _END = b"\x82", b"\x90", b"\x78"


def vital_product_data(product: str, part: str, serial: str) -> bytes:
    """The bytes of such a file, with their checksum."""
    fields = b"".join(
        word + bytes((len(text),)) + text.encode()
        for word, text in ((b"PN", part), (b"EC", "A4"), (b"SN", serial))
    )
    name = product.encode()
    head = _NAME + len(name).to_bytes(2, "little") + name
    head += _READ_ONLY + (len(fields) + 4).to_bytes(2, "little") + fields + b"RV\x01"
    return head + bytes((-sum(head) & 0xFF,)) + _END
