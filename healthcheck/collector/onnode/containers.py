"""What configurations of container runtimes name, and whether it is on this node.

Of a file no more than that is handed on: daemon.json, config.toml and their like may hold tokens and
passwords. Names are those of docs.docker.com (dockerd, daemon configuration file), docs/cri/config.md of
containerd (BinaryName), crio.conf(5) (runtime_path) and the CDI specification (path, hostPath). Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional

from healthcheck.collector.onnode.system import ROOT

# Of NVIDIA's container toolkit, by the names of its packages' programs; the second is the hook's former name.
TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-runtime",
           "nvidia-container-cli", "nvidia-ctk")
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
           "/usr/local/nvidia/toolkit")
KEYS = ("storage-driver", "data-root", "exec-opts", "default-runtime", "live-restore", "log-driver")
MOST_NAMED = 4096
NAMED = re.compile(r"""\b(?:hostPath|path)["']?\s*:\s*["']?(/[^"',\s}\]]{1,400})""")
SECTION = re.compile(r"""\s*\[.*\bruntimes\.["']?([^."'\]\s]{1,64})""")
PROGRAM = re.compile(r"""\s*(?:BinaryName|runtime_path)\s*=\s*["']([^"']{1,400})["']""")


def there(program: str) -> Optional[bool]:
    """Whether a file is there, or for a bare name a program in the customary folders; None if that cannot be
    seen."""
    seen: Optional[bool] = False
    for path in [program] if "/" in program else [folder + "/" + program for folder in FOLDERS]:
        try:
            os.stat(ROOT + path)
            return True
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError):
            seen = None
    return seen


def described(path: str, data: bytes) -> bytes:
    """What one of these files names, as JSON: `gone` and `unseen` paths of a CDI specification; `programs` of
    runtimes, each with its name and whether it is there; and of daemon.json the `keys` that Docker's own
    report has too, or the `trouble` with its form."""
    if "/cdi/" in path:
        found: Dict[str, Any] = {"gone": [], "unseen": []}
        for named in sorted(set(NAMED.findall(data.decode("utf-8", "replace"))))[:MOST_NAMED]:
            seen = there(named)
            if not seen:
                found["gone" if seen is False else "unseen"].append(named)
    elif path.endswith(".json"):
        found = daemon(data)
    else:
        found = {"programs": runtimes(data.decode("utf-8", "replace"))}
    return json.dumps(found).encode()


def toolkit() -> bytes:
    """The programs of NVIDIA's toolkit that are on the node, as JSON."""
    return json.dumps({name: there(name) for name in TOOLKIT}).encode()


def daemon(data: bytes) -> Dict[str, Any]:
    """Docker takes an empty file for no configuration."""
    try:
        document = json.loads(data.decode("utf-8-sig").strip() or "{}")
    except (ValueError, RecursionError) as error:
        return {"trouble": re.sub(r" \(char \d+\)$", "", str(error))[:200]}
    if not isinstance(document, dict):
        return {"trouble": "no object"}
    keys = {key: document[key] for key in KEYS if key in document}
    if isinstance(keys.get("data-root"), str):
        # Docker names the folder behind a link.
        keys["data-root"] = os.path.realpath(keys["data-root"])
    named = document.get("runtimes")
    programs: List[List[Any]] = []
    for name, runtime in sorted(named.items()) if isinstance(named, dict) else ():
        if isinstance(runtime, dict) and isinstance(runtime.get("path"), str):
            programs.append([name, runtime["path"], there(runtime["path"])])
    return {"keys": keys, "programs": programs}


def runtimes(text: str) -> List[List[Any]]:
    """Each program that a section of a runtime names."""
    found, name = [], ""
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            section = SECTION.match(line)
            name = section.group(1) if section else ""
        program = PROGRAM.match(line)
        if program and name:
            found.append([name, program.group(1), there(program.group(1))])
    return found
