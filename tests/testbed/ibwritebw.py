"""A stand-in for ib_write_bw, for machines without RDMA: both sides meet over TCP as the real one's do, and
it prints what that prints.

It is a program of its own in a folder; `rates` beside it has the Gb/s of both ways by the devices' names,
`fault` what is wrong with it.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

LINE = "-" * 87
FORM = f"""{LINE}
                    RDMA_Write Bidirectional BW Test
{LINE}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1000             0.00               %-7.2f\t\t     0.000100
{LINE}
"""


def install(folder: Path, rates: dict[str, float], usual: float, fault: str = "") -> Path:
    """Puts it there; gives the folder, for PATH. A pair has the lowest rate of its devices. Faults: absent,
    hang, garbage."""
    folder.mkdir(exist_ok=True)
    if fault == "absent":
        return folder
    (folder / "rates").write_text(json.dumps({"": usual, **rates}))
    (folder / "fault").write_text(fault)
    program = folder / "ib_write_bw"
    root = Path(__file__).resolve().parents[2]
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(root)!r})\n"
                       f"from tests.testbed import ibwritebw\nsys.exit(ibwritebw.main({str(folder)!r}))\n")
    program.chmod(0o755)
    return folder


def main(folder: str) -> int:
    if "--version" in sys.argv:
        print("Version: 6.10")
        return 0
    rates, fault = json.loads(Path(folder, "rates").read_text()), Path(folder, "fault").read_text()
    given = sys.argv[1:]
    device, port, seconds = (given[given.index(option) + 1] for option in ("-d", "-p", "-D"))
    address = given[-1] if given[-2] != "-p" else ""
    own = rates.get(device, rates[""])
    if address:
        try:
            line = socket.create_connection((address, int(port)), 5)
        except OSError:
            print(
                f" Couldn't connect to {address}:{port}\nUnable to open file descriptor for socket "
                f"connection")
            return 1
    else:
        with socket.create_server(("", int(port))) as server:
            line = server.accept()[0]
    with line:
        line.sendall(f"{own}\n".encode())
        other = float(line.makefile().readline())
    if fault == "hang":
        time.sleep(600)
    time.sleep(0.2 if fault != "slowly" else float(seconds))
    sys.stdout.write("\x1b[2J nothing of the kind\x00\n" if fault == "garbage" else FORM % min(own, other))
    return 0
