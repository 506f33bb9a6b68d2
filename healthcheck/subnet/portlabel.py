"""The number that a subnet gives a switch's port, from what is printed beside it.

Each OSFP cage of NVIDIA's Quantum-2 has two InfiniBand ports, 1/cage/port (QM97XX user manual, "Interfaces"),
taken to be numbered in order: "1/12/2" is port 24. A cage of one port, "1/12", has the cage's number.
"""

from __future__ import annotations

import re

PORTS_IN_A_CAGE = 2
_MOST = 254  # ports of a switch: IBA gives a port number eight bits, 0 and 255 are taken
_LABEL = re.compile(r"(?:[A-Za-z]{1,12})?\s*-?(?:(?:[0-9]{1,2}/)[Pp]?([0-9]{1,3})(?:/([0-9]))?|([0-9]{1,3}))")


def number_of(label: str, in_a_cage: int = PORTS_IN_A_CAGE) -> int | None:
    """ "12" or "port-12" -> 12, "1/12" -> 12, "1/12/2", "IB1/12/2" or "S1/P12/2" -> 24; None for another."""
    found = _LABEL.fullmatch(label.strip())
    if found is None:
        return None
    cage, port, plain = found.groups()
    if port is not None:
        if not 1 <= int(port) <= in_a_cage:
            return None
        number = (int(cage) - 1) * in_a_cage + int(port)
    else:
        number = int(cage if cage is not None else plain)
    return number if 1 <= number <= _MOST else None


def label_of(number: int, in_a_cage: int = 1) -> str:
    """What is printed beside a port: "12", or with two ports in a cage "1/6/2"."""
    if in_a_cage == 1:
        return str(number)
    return f"1/{(number - 1) // in_a_cage + 1}/{(number - 1) % in_a_cage + 1}"
