"""A secret for a service, from a file that only its owner can read."""

from __future__ import annotations

from pathlib import Path

from healthcheck.config.secretline import secret_line
from tests.testbed.planted import private


def test_a_byte_order_mark_and_the_end_of_the_line_are_no_part_of_the_secret(tmp_path: Path) -> None:
    private(tmp_path / "auth", "\ufeffreader:s3cret\r\nanother line\r\n")
    assert secret_line(str(tmp_path / "auth"), "--prometheus-auth", "NONE_SUCH") == "reader:s3cret"
