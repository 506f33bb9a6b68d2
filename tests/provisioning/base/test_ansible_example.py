"""The playbook that `muster help base` shows for what muster leaves to others is one that Ansible takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TOPIC = Path(__file__).parents[3] / "healthcheck" / "help" / "base.md"


def test_the_playbook_of_the_topic_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(# site\.yml.*?)```", TOPIC.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "site.yml").write_text(found[1])
    (tmp_path / "hosts.ini").write_text("[gpus]\ngpu001\n")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.ini", "--syntax-check",
         "site.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
