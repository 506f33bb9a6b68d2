"""What ipmitool's messages mean: which kind of trouble, whether anything was changed, and a line for people.

Messages: ipmitool 1.8.19, src/plugins/lanplus/lanplus.c and lanplus_strings.c (RAKP), lib/ipmi_strings.c (completion codes of IPMI 2.0,
5.2), src/plugins/ipmi_intf.c (addresses). With -v it says why no session came to be; without, only that.
"""

from __future__ import annotations

import re

from inventory.text import clean
from provisioning.bmc.base import BmcError, Wrong
from provisioning.bmc.ipmi.tool import Said

_NO_SESSION = "Unable to establish IPMI v2 / RMCP+ session"
_RAKP = re.compile(r"RAKP [24] message indicates an error : (.+)|Error in open session response message : (.+)")
# (what the message has in it, kind, words) where a session did not come to be, the most telling first.
_SESSION = (
    ("RAKP 2 HMAC is invalid", Wrong.CREDENTIALS, "the password is wrong"),
    ("RAKP 4 message has invalid integrity check value", Wrong.CREDENTIALS, "the password is wrong"),
    ("unauthorized name", Wrong.CREDENTIALS, "there is no such user, or it may not log in"),
    ("invalid integrity check value", Wrong.CREDENTIALS, "the password is wrong"),
    ("unauthorized role requested", Wrong.DENIED, "this user may not do as much"),
    ("invalid role", Wrong.DENIED, "this user may not do as much"),
    ("Set Session Privilege Level", Wrong.DENIED, "this user may not do as much"),
    ("insufficient resources", Wrong.BUSY, "it has no session left"),
    ("does not support IPMI v2", Wrong.UNSUPPORTED, "it does not speak IPMI 2.0"),
    ("Address lookup for", Wrong.UNREACHABLE, "its name has no address"),
    ("Could not open socket", Wrong.UNREACHABLE, "no way leads to its address"),
    ("no matching cipher suite", Wrong.BROKEN, "it takes none of the cipher suites that ipmitool has"),
    ("invalid authentication algorithm", Wrong.BROKEN, "it takes none of the cipher suites that ipmitool has"),
    ("no response from RAKP 1 message", Wrong.TIMEOUT,
     "it stopped answering when it was told the user's name: a datagram was lost, or it does not know the user"),
    ("no response from RAKP 3 message", Wrong.TIMEOUT, "it stopped answering in the middle of the login"),
    ("Timeout in open session", Wrong.TIMEOUT, "it stopped answering at the beginning of the login"),
    ("Get Auth Capabilities error", Wrong.UNREACHABLE, "it does not answer"),
)
_CODES = {
    "Node busy": Wrong.BUSY, "BMC initialization in progress": Wrong.BUSY, "SDR Repository in update mode": Wrong.BUSY,
    "Device firmeware in update mode": Wrong.BUSY, "Device firmware in update mode": Wrong.BUSY, "Timeout": Wrong.TIMEOUT,
    "Insufficient privilege level": Wrong.DENIED, "Invalid command": Wrong.UNSUPPORTED, "Invalid command on LUN": Wrong.UNSUPPORTED,
    "Cannot execute command, command disabled": Wrong.UNSUPPORTED, "Requested sensor, data, or record not found": Wrong.UNSUPPORTED,
    "Command illegal for specified sensor or record type": Wrong.UNSUPPORTED, "Parameter out of range": Wrong.REFUSED,
    "Invalid data field in request": Wrong.REFUSED, "Command not supported in present state": Wrong.REFUSED,
    "Out of space": Wrong.REFUSED, "Destination unavailable": Wrong.BROKEN, "Unspecified error": Wrong.BROKEN,
}


def error(said: Said) -> BmcError:
    """What a run that did not end well means. Its `done` is False where the controller refused or never heard of it, else None."""
    if _NO_SESSION in said.err or "Set Session Privilege Level" in said.err:
        return _no_session(said.err)
    if "Could not build SDRR" in said.err:      # as it must not, see tool.Level
        return BmcError(Wrong.UNSUPPORTED, "it has no record of any sensor")
    for line in reversed(said.err.splitlines()):
        code = line.rstrip().rpartition(": ")[2]
        if code in _CODES:
            # A controller that timed out or broke down within may have done it all the same.
            done = None if _CODES[code] in (Wrong.TIMEOUT, Wrong.BROKEN) else False
            return BmcError(_CODES[code], f"it answers: {code}", done)
    for line in reversed(said.err.splitlines()):
        if any(word in line for word in ("password file", "Unable to read password")):
            return BmcError(Wrong.NO_SECRET, "this ipmitool does not read a password from a pipe")
    last = next((line.strip() for line in reversed((said.err + "\n" + said.out).splitlines()) if line.strip()), "")
    return BmcError(Wrong.BROKEN, f"ipmitool ended with {said.exit}: {clean(last, 120)}" if last else
                    f"ipmitool ended with {said.exit} and said nothing", done=None)


def _no_session(text: str) -> BmcError:
    for part, wrong, words in _SESSION:
        if part in text:
            return BmcError(wrong, words)
    match = _RAKP.search(text)
    if match is not None:
        return BmcError(Wrong.BROKEN, f"it refuses the login: {clean((match[1] or match[2]).strip(), 80)}")
    # Without -v, or from a version of other words: it may be anything.
    return BmcError(Wrong.TIMEOUT, "no session came to be, and ipmitool does not say why: it may be the network, the controller, or a "
                                   "password that was changed")
