"""A machine whose adapters have firmware: a root folder of its own with a stand-in for mlxfwmanager, which is
not free software and does nothing without an adapter. It keeps what is on each flash and what runs in a file,
and prints as the recorded ones do."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from inventory.model import Node
from tests.testbed.planted import executable

_TOOL = """#!{python} -I
import hashlib, json, os, sys, time
here = {root!r}
argv = sys.argv[1:]
with open(here + "/state.json") as file:
    state = json.load(file)
with open(here + "/asked", "a") as file:
    file.write(json.dumps(argv) + "\\n")
pci = argv[argv.index("-d") + 1]
card = state["cards"][pci]
def text(status):
    print("Querying Mellanox devices firmware ...\\n\\nDevice #1:\\n----------\\n")
    print("  Device Type:      ConnectX7\\n  PCI Device Name:  " + pci + "\\n  Versions:         Current        Available")
    print("     FW             " + card["flash"] + "     N/A")
    if card["running"] != card["flash"]:
        print("     FW (Running)   " + card["running"] + "     N/A")
    print("\\n  Status:           " + status + "\\n")
if "-u" not in argv:
    if "--query-format" in argv and not state.get("old"):
        if card.get("locked"):
            print('<Devices>\\n<Device pciName="' + pci + '" type="ConnectX7">\\n<Status>Failed to open device</Status>\\n</Device>\\n</Devices>')
            sys.exit(1)
        running = '<FW_Running current="%s" available="N/A"/>' % card["running"] if card["running"] != card["flash"] else ""
        print('<Devices>\\n<Device pciName="%s" type="ConnectX7" psid="MT_0000000838" partNumber="X">\\n<Versions><FW current="%s" available="N/A"/>%s</Versions>'
              '\\n<Status>No matching image found</Status>\\n</Device>\\n</Devices>' % (pci, card["flash"], running))
    elif "--query-format" in argv:
        print("-E- Bad argument: --query-format", file=sys.stderr)
        sys.exit(3)
    else:
        text("No matching image found")
    sys.exit(0)
path = argv[argv.index("-i") + 1]
with open(path, "rb") as file:
    data = file.read()
with open(here + "/written", "a") as file:
    file.write(json.dumps([pci, hashlib.sha256(data).hexdigest(), oct(os.stat(os.path.dirname(path)).st_mode)]) + "\\n")
while os.path.exists(here + "/slow"):
    time.sleep(0.02)
if card.get("refuses"):
    text("Update required")
    print("---------\\nFound 1 device(s) requiring firmware update...\\n\\nDevice #1: Updating FW ...     \\nFail : The Digest in the signature is wrong \\n")
    print("-E- Failed to program device", file=sys.stderr)
    sys.exit(2)
version = data.decode().split()[1]
if version == card["flash"]:
    text("Up to date")
    sys.exit(0)
card["flash"] = version
with open(here + "/state.json.new", "w") as file:
    json.dump(state, file)
os.rename(here + "/state.json.new", here + "/state.json")
print("Device #1: Updating FW ...     \\nFSMST_INITIALIZE -   OK\\nWriting Boot image component -   OK\\nDone\\n\\nRestart needed for updates to take effect.")
"""  # noqa: E501


class AdapterMachine:
    """The machine; `root` is where its program works."""

    def __init__(self, root: Path, *cards: str, version: str = "28.39.1002", **state: Any) -> None:
        self.root, self.node = root, Node("gx01", python=sys.executable)
        for pci in cards:
            for name, text in (("vendor", "0x15b3\n"), ("class", "0x020700\n")):
                (root / "sys/bus/pci/devices" / pci).mkdir(parents=True, exist_ok=True)
                (root / "sys/bus/pci/devices" / pci / name).write_text(text)
        (root / "proc").mkdir(parents=True)
        (root / "usr/bin").mkdir(parents=True)
        self._keep({"cards": {pci: {"flash": version, "running": version} for pci in cards}, **state})
        self.up_since(time.time() - 86400)
        executable(root / "usr/bin/mlxfwmanager", _TOOL.format(python=sys.executable, root=str(root)))

    def up_since(self, then: float) -> None:
        """It started then, by the head's clock."""
        self._started = then
        new = self.root / f"proc/uptime.{threading.get_ident()}"
        new.write_text(f"{max(0.0, time.time() - then):.2f} 1.00\n")
        new.rename(self.root / "proc/uptime")

    def tick(self) -> None:
        """Its time goes on."""
        self.up_since(self._started)

    def restart(self, pause: float = 0.0) -> None:
        """What is on the flash runs. A real restart ends who is looking meanwhile; here `pause` seconds let a
        look that has read the old version read the old time, too."""
        state = self.state()
        if not state.get("keeps"):
            for card in state["cards"].values():
                card["running"] = card["flash"]
        self._keep(state)
        time.sleep(pause)
        self.up_since(time.time() + 1.0)

    def card(self, pci: str, **more: Any) -> None:
        state = self.state()
        state["cards"][pci].update(more)
        self._keep(state)

    def keeps_old(self) -> None:
        """It starts with the old version, whatever is on the flash."""
        self._keep({**self.state(), "keeps": True})

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "state.json").read_text())
        return found

    def _keep(self, state: dict[str, Any]) -> None:
        new = self.root / f"state.json.{threading.get_ident()}"
        new.write_text(json.dumps(state))
        new.rename(self.root / "state.json")

    @property
    def written(self) -> list[list[str]]:
        """What the tool was given to write: the card, the payload's digest, and the mode of the folder in
        which it lay."""
        path = self.root / "written"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def notes(self) -> Path:
        return self.root / "var/lib/muster-firmware"

    def left(self) -> list[str]:
        """What a program has left beside its notes."""
        return [path.name for path in self.notes.iterdir() if path.name != "lock"
                and path.suffix != ".json"] if self.notes.exists() else []
