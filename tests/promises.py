"""What a remedy promises, read from its words, for the tests that hold it against what triage, tickets and
`muster remediate` make of it."""

from __future__ import annotations

import re

from healthcheck.model.outcome import Repair

_SAYS = (
    (Repair.REPLACE, re.compile(
        r"\b(?:has? .{1,40} )?replaced?\b(?! at)|\bgoes (?:back )?to the vendor|\breturn the board|"
        r"\border (?:a|its) replacement", re.I)),
    (Repair.REBOOT, re.compile(r"\breboot\b", re.I)),
    (Repair.RESET_GPU, re.compile(
        r"\breset (?:the|its|all its|all|that) GPUs?\b|\breset it \(nvidia-smi", re.I)),
    (Repair.RESTART_SERVICE, re.compile(
        r"\brestart(?! of| guarantees)|\bmodprobe (?!\.d)|\bsystemctl (?:enable --now|start)|\breload\b|"
        r"\bstart (?:it|the|its|them|nvidia)", re.I)),
)
# To switch the power off and on is a reboot, and more, which a person does.
_POWER = re.compile(r"\bpower[- ]cycle|\bpower .{0,20}off and on|\bpower off in between", re.I)
# What is done only in another case, or if something else did not help, is no promise.
_CASE = re.compile(
    r"\b(?:if|where|unless|when (?:the number|it comes|a job meets)|once (?:it|the)|lost again|back at "
    r"once|else|"
    r"still|again|growing|instead|do not|does not|cannot|offline|none at all|there|same|"
    r"off or down|high|slow|without|after)\b", re.I)
# What goes before the first action, and is none itself.
_FIRST = re.compile(
    r"(?:drain(?:ed)?(?: the node| the NVLink domain)?\b|let (?:the |running )?jobs end\b|"
    r"save what is needed\b|(?:note|keep|read|see|find|stop what) [^,.;:]*|end every process[^,.;]*|"
    r"start nothing new[^,.;]*|start no (?:new ones|job)[^,.;]*|as xid \d+:|systemctl status [a-z-]+|"
    r"journalctl -u [a-z]+|then\b|and\b|having [^,.;]*|[\s,.;:])*", re.I)


def promises(text: str) -> set[Repair]:
    """All repairs that the text asks for in any case; a switched-off power may stand for a reboot."""
    found = {repair for piece in _pieces(text) for repair, words in _SAYS if words.search(piece)}
    return found | ({Repair.REBOOT} if _POWER.search(text) else set())


def first(text: str) -> Repair | None:
    """The repair that the text begins with, after draining and reading; None where it begins with a person's
    own work, or asks for it in some case only."""
    start = _FIRST.match(text)
    rest = text[start.end() if start is not None else 0:]
    found = next((repair for repair, words in _SAYS if words.match(rest)), None)
    return found if found is not None and found in promises(rest) else None


def _pieces(text: str) -> list[str]:
    found = []
    for sentence in re.split(r"[.;:](?:\s|$)", text):
        for piece in re.split(r",\s|\band\b", sentence):
            if _CASE.search(piece):
                break
            found.append(piece)
    return found
