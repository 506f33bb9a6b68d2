"""hatchling's hook for the wheel: the man pages are written by scripts/man and shipped as share/man/man1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):  # type: ignore[type-arg]
    """Makes the pages for a wheel that is shipped; an editable installation has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._made = TemporaryDirectory()
        subprocess.run([sys.executable, str(Path(self.root, "scripts", "man")), self._made.name,
                        self.metadata.version], check=True)
        for page in sorted(Path(self._made.name).iterdir()):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._made.cleanup()
