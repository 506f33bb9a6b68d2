"""Files are written whole or not at all, on real file systems that take nothing more."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from healthcheck.config.files import write_whole
from tests.testbed.require import require


@pytest.mark.parametrize(("options", "words"), [
    ("size=64k", "No space left on device"), ("size=64m,nr_inodes=3", "No space left on device"),
    ("size=64k,ro", "Read-only file system"),
])
def test_a_disk_that_takes_nothing_leaves_the_old_file_and_the_error_names_it(
    tmp_path: Path, options: str, words: str,
) -> None:
    require(os.geteuid() == 0 and shutil.which("mount"), "needs root, and mount(8) of util-linux")
    size, _, rest = options.partition(",")
    first = ",".join([size, *([] if rest == "ro" else [rest] if rest else [])])
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", first, "tmpfs", str(tmp_path)], check=False)
    require(done.returncode == 0, "no tmpfs can be mounted here")
    try:
        path = tmp_path / "kept"
        path.write_bytes(b"old")
        if "inodes" in rest:
            (tmp_path / "other").touch()
        elif rest == "ro":
            subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        with pytest.raises(OSError, match=words) as raised:
            write_whole(path, bytes(1 << 20))
        assert raised.value.filename == str(path) and path.read_bytes() == b"old"
        assert not [each for each in tmp_path.iterdir() if each.name.startswith(".kept")]
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
