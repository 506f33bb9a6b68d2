"""Names by which firmware calls machines that are built for GPUs, from DMI's product and board names.

The list only ever speaks against taking a machine for one without GPUs, so that a name too many costs its
owner one line in the inventory. Sources: the makers' product pages and naming guides (NVIDIA DGX and MGX,
Dell PowerEdge XE and C41xx, HPE ProLiant XL6xxd and Cray XD6xx, Lenovo ThinkSystem SR67x and SR68xa,
Supermicro's naming rule, whose first letter after the digits is G for GPU systems, ASUS ESC, Gigabyte Gxxx,
Inspur NF5x88 and NF5468, QCT QuantaGrid, Cisco UCS C885A and C845A, Fujitsu PRIMERGY GX), and Amazon EC2,
whose firmware has the instance type as the product's name.
"""

from __future__ import annotations

import re

_SERVERS = re.compile(
    r"\b(?:"
    r"(?:[DHM]GX|GPU|NVL[0-9]{0,3}|[ABHV]100|[AH]800|G?[BH][23]00|MI[0-9]{3}[AX]?|HLS-\w+)\b"
    r"|XE[0-9]{4}L?|C41[34]0|DSS ?8440|XL(?:645|675|270)d|XD6[0-9]{2}|DL38[0-9]a"
    r"|SR6(?:50a|7[0-9]|8[0-9]a?)\w*|SR780a"
    r"|(?:SYS|AS|ARS|SSG|R?SC)[ -]{1,3}\w{3,4}G[A-Z]"
    r"|ESC ?[N0-9]\w*|G[1-9][0-9]{2}-\w+|NF5(?:[246]88|468)\w*|D(?:43N|52G|54U|74[HFA]|75[EHT])\b"
    r"|UCSC?-?C?8(?:85|45)A|C480 ML|GX2[45][0-9]{2}"
    r")|^(?:p|g|gr)[0-9]\w{0,4}\.|^(?:trn|inf|dl|vt)[0-9]\w{0,3}\.|^DGX",
    re.IGNORECASE)
# What makers leave where the product's name should be.
_PLACEHOLDERS = frozenset((
    "", "n/a", "na", "none", "unknown", "not specified", "not available", "not applicable", "default string",
    "to be filled by o.e.m.", "system product name", "product name", "o.e.m.", "oem", "empty", "undefined"))


def is_gpu_server(name: str) -> bool:
    """Whether firmware's name of a product or board is that of a machine built for GPUs."""
    return _SERVERS.search(name) is not None


def is_placeholder(name: str) -> bool:
    """Whether firmware's name is none."""
    return name.strip().casefold() in _PLACEHOLDERS
