"""What ipmitool's messages mean: the trouble, whether anything was changed, a line for people. Messages:
ipmitool 1.8.19, src/plugins/lanplus/lanplus.c and lanplus_strings.c (RAKP), lib/ipmi_strings.c (completion
codes of IPMI 2.0, 5.2), src/plugins/ipmi_intf.c (addresses). Only with -v it says why no session came."""

from __future__ import annotations

import re

from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.ipmi.tool import IpmitoolOutput

_NO_SESSION = "Unable to establish IPMI v2 / RMCP+ session"
_RAKP = re.compile(
    r"RAKP [24] message indicates an error : (.+)|Error in open session response message : (.+)")
# (what the message has in it, kind, words) where a session did not come to be, the most telling first.
_SESSION = (
    ("RAKP 2 HMAC is invalid", BmcErrorReason.CREDENTIALS, "the password is wrong"),
    ("RAKP 4 message has invalid integrity check value", BmcErrorReason.CREDENTIALS, "the password is wrong"),
    ("unauthorized name", BmcErrorReason.CREDENTIALS, "there is no such user, or it may not log in"),
    ("invalid integrity check value", BmcErrorReason.CREDENTIALS, "the password is wrong"),
    ("unauthorized role requested", BmcErrorReason.DENIED, "this user may not do as much"),
    ("invalid role", BmcErrorReason.DENIED, "this user may not do as much"),
    ("Set Session Privilege Level", BmcErrorReason.DENIED, "this user may not do as much"),
    ("insufficient resources", BmcErrorReason.BUSY, "it has no session left"),
    ("does not support IPMI v2", BmcErrorReason.UNSUPPORTED, "it does not speak IPMI 2.0"),
    ("Address lookup for", BmcErrorReason.UNREACHABLE, "its name has no address"),
    ("Could not open socket", BmcErrorReason.UNREACHABLE, "no way leads to its address"),
    ("no matching cipher suite", BmcErrorReason.BROKEN,
     "it takes none of the cipher suites that ipmitool has"),
    ("invalid authentication algorithm", BmcErrorReason.BROKEN,
     "it takes none of the cipher suites that ipmitool has"),
    ("no response from RAKP 1 message", BmcErrorReason.TIMEOUT,
     "it stopped answering when it got the user's name: a datagram was lost, or it does not know the "
     "user"),
    ("no response from RAKP 3 message", BmcErrorReason.TIMEOUT,
     "it stopped answering in the middle of the login"),
    ("Timeout in open session", BmcErrorReason.TIMEOUT, "it stopped answering at the beginning of the login"),
    ("Get Auth Capabilities error", BmcErrorReason.UNREACHABLE, "it does not answer"))
_CODES = {
    "Node busy": BmcErrorReason.BUSY, "BMC initialization in progress": BmcErrorReason.BUSY,
    "SDR Repository in update mode": BmcErrorReason.BUSY,
    "Device firmeware in update mode": BmcErrorReason.BUSY,
    "Device firmware in update mode": BmcErrorReason.BUSY, "Timeout": BmcErrorReason.TIMEOUT,
    "Insufficient privilege level": BmcErrorReason.DENIED, "Invalid command": BmcErrorReason.UNSUPPORTED,
    "Invalid command on LUN": BmcErrorReason.UNSUPPORTED,
    "Cannot execute command, command disabled": BmcErrorReason.UNSUPPORTED,
    "Requested sensor, data, or record not found": BmcErrorReason.UNSUPPORTED,
    "Command illegal for specified sensor or record type": BmcErrorReason.UNSUPPORTED,
    "Parameter out of range": BmcErrorReason.REFUSED, "Invalid data field in request": BmcErrorReason.REFUSED,
    "Command not supported in present state": BmcErrorReason.REFUSED, "Out of space": BmcErrorReason.REFUSED,
    "Destination unavailable": BmcErrorReason.BROKEN, "Unspecified error": BmcErrorReason.BROKEN}


def error(message: IpmitoolOutput) -> BmcError:
    """What a run that ended badly means; `done` is False where the controller refused, else None."""
    if _NO_SESSION in message.err or "Set Session Privilege Level" in message.err:
        return _no_session(message.err)
    if "Could not build SDRR" in message.err:      # as it must not, see tool.Level
        return BmcError(BmcErrorReason.UNSUPPORTED, "it has no record of any sensor")
    for line in reversed(message.err.splitlines()):
        code = line.rstrip().rpartition(": ")[2]
        if code in _CODES:
            # A controller that timed out or broke down within may have done it anyway.
            done = None if _CODES[code] in (BmcErrorReason.TIMEOUT, BmcErrorReason.BROKEN) else False
            return BmcError(_CODES[code], f"it answers: {code}", done)
    for line in reversed(message.err.splitlines()):
        if any(word in line for word in ("password file", "Unable to read password")):
            return BmcError(BmcErrorReason.NO_SECRET, "this ipmitool does not read a password from a pipe")
    last = next((line.strip() for line in reversed((message.err + "\n" + message.out).splitlines())
                 if line.strip()), "")
    return BmcError(BmcErrorReason.BROKEN,
                    f"ipmitool ended with {message.exit}: {clean(last, 120)}" if last
                        else f"ipmitool ended with {message.exit} and printed nothing", done=None)


def _no_session(text: str) -> BmcError:
    for part, wrong, words in _SESSION:
        if part in text:
            return BmcError(wrong, words)
    match = _RAKP.search(text)
    if match is not None:
        return BmcError(
            BmcErrorReason.BROKEN, f"it refuses the login: {clean((match[1] or match[2]).strip(), 80)}")
    # Without -v, or from a version of other words: it may be anything.
    return BmcError(BmcErrorReason.TIMEOUT,
                    "no session was opened, and ipmitool gives no reason: it may be the network, the "
                    "controller, or a changed password")
