"""Makes a template of a line: what varies between boots, nodes and builds becomes `<*>`, and what a fault means stays.

Masked: addresses (memory, PCI, MAC, IP, SCSI), numbers and lists of them, sizes, times, dates, hex, UUIDs, serials, versions, the numbers
of devices, interfaces, CPUs, processes and jobs; and whole tails where builds differ in words (MASKS says which and why). What a user
chose in a line that quotes it is blanked before (`healthcheck.kernellog.quoting`).
Kept, as they are what the line means: Xid and SXid numbers; systemd as process 1; numbers after words of CODES; negative numbers of up to
four digits (errno ends at -4095); a link's width (x8) and speed (GT/s, Gbps, Mbps); PCI ids ([10de:2330], they tell hardware apart);
digits inside a name (mlx5_core, i40e) and after the words of NAMED; the number in an 'NMI ... reason 2d'; every word, so 'corrected',
'Fatal', 'down'.

There is one placeholder, because a value's kind cannot be told from one sample: a serial can be all digits, and a hex number too. A list
is one `<*>` however long, so 8 CPUs and 224 give one template. Texts that differ in more than what is masked never share a template: `*>`
in a text becomes `**>`, and the characters that stand for hidden digits are escaped. So a template need not be its own; but filled
with other values (`fill`) it comes back. Lines that differ in their digits alone mostly share a template, and one of them is masked for all
(`_for_all`). Runs on nodes too: Python 3.8, `re` alone, ASCII classes only, no pattern worse than linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from healthcheck.kernellog.quoting import all_blanked

TYPE_CHECKING = False       # typing would cost a node some milliseconds
if TYPE_CHECKING:
    from random import Random

LONGEST = 8192              # characters of a text that are looked at
HOLE = "<*>"
VERSION = 2                 # of the templates: with another, baselines have to be learned again
_REMEMBERED = 32_768        # texts whose template is kept at hand
_LONGEST_REMEMBERED = 400
_TOGETHER = 128             # texts that are masked in one go: they stay in the processor's cache, and few of them need the rare masks
_COMPARED = 300             # characters of a template that are compared with others
_CLOSEST = 8                # templates that are compared by their characters
_ALIKE = 0.5                # of their characters, at least, have those that are alike in common


_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# Name, needle, pattern, replacement, why. Where the needle occurs the pattern is replaced, in this order. A 0 stands for a number that is
# masked at last, as one of a list with its neighbours.
MASKS: tuple[tuple[str, str, str, str, str], ...] = (
    ("alignment", "  ", r"  +", " ", "columns are padded by what stands in them"),
    ("kernel build", "Linux version ", r"Linux version [^\n]*", "Linux version 0", "host, compiler and date of every build differ"),
    ("command line", "ommand line: ", r"ommand line: [^\n]*", "ommand line: 0", "it names the kernel and the root disk"),
    ("parameters", 'parameters "', r'parameters "[^\n]*', 'parameters "0', "the same, in the kernel's own complaint"),
    ("clock", "Marking stable", r"Marking stable [^\n]*", "Marking stable 0", "its numbers have any sign"),
    ("calibration", "bogoMips", r"dropping (?:max|min) bogoMips estimate[^\n]*", "dropping bogoMips estimate 0",
     "which of several measurements is left out"),
    ("per-CPU allocation", "pcpu-alloc: ", r"pcpu-alloc: (?:\[[0-9]+\]|s[0-9])[^\n]*", "pcpu-alloc: 0", "by the number of processors"),
    ("CPU time", ": Consumed ", r"(?<=systemd\[[0-9]\]: )[^\n:]{1,120}: Consumed [^\n]{1,40}CPU time[^\n]*", "0: Consumed 0",
     "which units it is said of differs from boot to boot"),
    ("modules", "Modules linked in:", r"Modules linked in:[^\n]*", "Modules linked in: 0", "the order is that of loading"),
    ("machine check", "Bank ", r"(Bank [0-9]{1,3}: )[2367abef][0-9a-f]{15}(?![0-9a-f])", r"\1uncorrected 0",
     "bit 61 of a bank's status, the second of its first digit, says that the error was not corrected"),
    ("machine code", "Code: ", r"Code: [0-9a-f<][^\n]*", "Code: 0", "bytes"),
    ("builder", "@", r"\([A-Za-z0-9._-]{1,40}@[^)\n]{1,80}\)", "(0)", "who built a driver"),
    ("ACPI table", "(v", r"\(v[0-9]{2} [^)\n]{1,60}\)", "(0)", "the table's signature stays; revisions and compilers are the firmware's"),
    ("bus range", "bus ", r"bus (?<![A-Za-z]bus )[0-9a-f]{2}(?:-[0-9a-f]{2})?(?![0-9A-Za-z:])", "bus 0", "[bus 00-ff]"),
    ("serial", "erial", r"(?<=erial)( ?[Nn](?:umber|o\.?)| [Ii][Dd]|)([:=] ?|  ?)(?=[^ \n]{0,40}[0-9])[^ ,;)\n]{1,64}", r"\1\g<2>0",
         "a disk's, a board's"),
    ("process", ", name=", r"pid=[^,\n]{1,24}, name=[^,\n]{0,40}", "pid=0, name=0", "whose job met the Xid"),
    ("pointer", "(____ptrval____)", r"(?:0x)?\(____ptrval____\)", "0", "said where it is too early to hash one"),
    ("partitions", ": p", r": p[0-9]{1,3}(?: p[0-9]{1,3})*", ": p0", "as many as the disk has"),
    ("disk", "sd", r"sd(?<![0-9A-Za-z_]sd)[a-z]{1,3}[0-9]{0,3}(?![0-9A-Za-z_])", "sd0", "sda, sdab1: in the order of discovery"),
    ("virtual disk", "vd", r"vd(?<![0-9A-Za-wyz_]vd)[a-z][0-9]{0,3}(?![0-9A-Za-z_])", "vd0", "vda1, xvdb"),
    ("veth", "veth", r"veth[0-9A-Za-z]{1,15}", "veth0", "a container's end of a wire: random"),
    ("bridge", "br-", r"br-(?<![A-Za-z]br-)[0-9a-f]{12}", "br-0", "Docker's: random"),
    ("calico", "cali", r"cali[0-9a-f]{11}", "cali0", "Calico's: random"),
    ("lxc", "lxc", r"lxc[0-9a-f]{8,14}", "lxc0", "Cilium's: random"),
    ("MAC name", "enx", r"enx[0-9a-f]{12}", "enx0", "systemd's name by address"),
    ("pod", "pod", r"pod[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}", "pod0", "Kubernetes' cgroup"),
    ("day", ":", rf"(?:{_DAYS}|{_MONTHS})(?:,? (?:{_MONTHS}))? {{1,2}}[0-9]{{1,2}} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?: [AP]M)?"
     r"(?: [A-Z]{3,4})?(?: [0-9]{4})?", "0", "when a driver was built"),
)


# Words after which a number stays, by their last four or three characters: as looking back has to know how far.
CODES = ("rror", "rrno", "[^A-Za-z]err", "[^A-Za-z]ret", "code", "Code", "atus", "sult", "ason", "gnal", "ense", "[^A-Za-z]sct",
         "synd", "type", "Bank")
CODES_SHORT = ("[^A-Za-z]rc", "[^A-Za-z]sc", "[Kk]ey")
# Names after which a number stays.
NAMED = ("ext", "EXT", "mlx", "IPv", "ipv", "raid", "RAID", "NFSv")
_HEX = "[0-9a-fA-F]"
_END = "(?![0-9A-Za-z])"


def _after_code() -> str:
    """That the character before is the first one of what follows a word of CODES, and ' ', '=', ':', '(', ': ', ' (', ' = ' or ' : '."""
    ends = "".join(sorted({word[-1] for word in (*CODES, *CODES_SHORT)}))
    gaps = ("[ =:(]", r"(?:: | \()", "(?: [=:] )")
    return "(?:" + "|".join(
        f"(?<=[{ends}]{gap}.)(?:(?<=(?:{'|'.join(CODES)}){gap}.)|(?<=(?:{'|'.join(CODES_SHORT)}){gap}.))" for gap in gaps) + ")"


# What stays, though the masks that follow would take it: its digits are hidden from them, as control characters. Name, needle, pattern.
_KEPT = (
    ("PCI ids", ":", r"\[[0-9a-f]{4}:[0-9a-f]{4}\]"),
    ("speeds", "GT/s", r"[0-9](?<![0-9A-Za-z.].)[0-9]{0,3}(?:\.[0-9]{1,3})?(?= ?GT/s)"),
    ("link rates", "bps", r"[0-9](?<![0-9A-Za-z.].)[0-9]{0,6}(?:\.[0-9]{1,3})?(?= ?[MG]bps)"),
    ("driver's codes", "failed! (0x", r"0x(?<=failed! \(0x)[0-9a-f]{1,4}(?=:)"),
    ("NMI reasons", "reason ", r"reason [0-9a-f]{2}(?![0-9A-Za-z])"),
    ("process 1", "systemd[1]", r"systemd\[1\](?=: )"),
    ("Xids", "Xid (", r"Xid \([^)\n]{0,64}\): [0-9]{1,5}(?![0-9A-Za-z])"),
    ("codes", "", rf"[0-9](?<![0-9A-Za-z].){_after_code()}(?:[xX]{_HEX}{{1,8}}|{_HEX}{{0,7}})(?![0-9A-Za-z]|\.[0-9])"),
)
# What follows the first character of several hex parts: a UUID; a PCI address; a MAC, GUID, IPv6 address or time; a PCI bus.
_PARTS = (
    rf"{_HEX}{{7}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_END}"
    rf"|{_HEX}{{0,7}}:{_HEX}{{2}}(?::{_HEX}{{2}})?\.[0-9]{_END}"
    rf"|{_HEX}{{0,3}}(?:::?{_HEX}{{1,4}}){{2,16}}{_END}"
    rf"|{_HEX}{{3,7}}:{_HEX}{{2}}{_END}"
)
# Hex without 0x that begins with a letter: in parts; the rest of a UUID; four digits with one of 0-9 among them; eight; or all of them f.
_LETTERED = re.compile(
    rf"[a-fA-F](?<![0-9A-Za-z].)(?:{_PARTS}|{_HEX}{{3}}(?:-{_HEX}{{4}}){{0,2}}-{_HEX}{{12}}{_END}|(?=[a-fA-F]{{0,40}}[0-9]){_HEX}{{3,}}(?![0-9A-Za-z_])"
    rf"|{_HEX}{{7,}}(?![0-9A-Za-z_])|[fF]{{3,}}(?![0-9A-Za-z_]))")
_UNIT = "[KMGTPEk]i?B?"
_SIZE = f"(?: [KMGTPE]i?B{_END})?"
# What follows the first digit of a number that stands alone: a date; parts; hex; a number with its unit, or of a device (0n1p1).
_ALONE = (
    rf"[0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9][0-9:.,]{{4,20}}Z?|{_PARTS}|[0-9a-fA-FxX]*{_END}|[0-9]*{_UNIT}{_END}"
    r"|[0-9]*(?:[a-z]{1,3}[0-9]+){0,8}"
)
_AGAIN = rf"(?:[.:/_*+@-]|, {{0,2}}#?| {{1,8}}#?|#)[0-9](?:[0-9a-fA-FxX]*{_END}|[0-9]*{_UNIT}{_END}|[0-9]*{_END})"
# A number with letters before it, unless small letters follow (i40e, mlx5_core), or it is one of NAMED, a link's width, or x86.
_NAMED = "".join(f"(?<!{name}.)" for name in NAMED)
_WITHIN = (
    rf"(?<=[A-Za-z].){_NAMED}(?!(?<=[ (]x.)[0-9]?{_END}|(?<=x8)6{_END})"
    r"[0-9]*(?:[A-Za-z]{1,3}[0-9]+){0,8}(?![0-9a-z]|_[a-z])"
)
_NUMBER = re.compile(
    rf"[0-9](?<![0-9].)(?:(?<![A-Za-z].)(?:(?<![ =:(]-.)|(?=[0-9a-fA-FxX]{{4}}))(?:{_ALONE})"
    rf"|{_WITHIN})"
    rf"{_SIZE}(?:{_AGAIN}{_SIZE})*")
_OURS = re.compile("[\n\x0f-\x19]")
_ESCAPED = {code: f"\x0f{chr(code + 64)}" for code in (10, *range(0x0F, 0x1A))}
_NUMERIC = "0" * 9         # longer than what is kept
_HIDDEN = {code: code - 0x20 for code in range(0x30, 0x3A)}
_SHOWN = {code - 0x20: code for code in range(0x30, 0x3A)}

# Digits are told from each other in these forms alone: no other pattern here asks which digit stands somewhere.
_TOLD_APART = re.compile(r"systemd\[0\]: |Bank |failed! \(0x|0x\(____ptrval____\)|x00(?![0-9A-Za-z])")
_DIGIT = re.compile("[0-9]")
_ZEROED = bytes(48 if 48 <= code < 58 else code for code in range(256))

_masks = [(needle, re.compile(pattern), to.replace("0", _NUMERIC)) for _, needle, pattern, to, _ in MASKS]
_kept = [(needle, re.compile(pattern)) for _, needle, pattern in _KEPT]
_known: dict[str, str] = {}


def template(text: str) -> str:
    """The template of one text."""
    return templates((text,))[0]


def templates(texts: Sequence[str]) -> list[str]:
    """The template of each text, in their order: one by one would give the same, many at once cost less. Never raises."""
    if len(_known) > _REMEMBERED:
        _known.clear()
    found = list(map(_known.get, texts))
    if None not in found:
        return found    # type: ignore[return-value]
    new = list(dict.fromkeys([text for text, made in zip(texts, found) if made is None]))       # noqa: B905 - Python 3.8
    shapes = zeroed(new)
    alike = [_known.get(shape) for shape in shapes]
    of: Mapping[str, str | None] = dict(zip(new, alike)) if None not in alike else _found_out(new, shapes)      # noqa: B905
    return [of[text] if made is None else made for text, made in zip(texts, found)]     # type: ignore[misc]  # noqa: B905


def _found_out(new: Sequence[str], shapes: Sequence[str]) -> dict[str, str]:
    """The templates of texts that are not remembered, some not even by their shapes."""
    first: dict[str, str] = {}
    # Asked once, for another thread may clear it.
    known = {shape: made for shape, made in zip(shapes, map(_known.get, shapes)) if made is not None}   # noqa: B905
    for text, shape in zip(new, shapes):    # noqa: B905
        if shape not in known:
            first.setdefault(shape, text)
    of = _all_masked(list(first.values()))
    alike = {shape: of[text] for shape, text in first.items() if _for_all(shape, of[text])}
    of.update(_all_masked([text for text, shape in zip(new, shapes)     # noqa: B905
                           if text not in of and shape not in alike and shape not in known]))
    for text, shape in zip(new, shapes):    # noqa: B905
        if text not in of:
            of[text] = alike[shape] if shape in alike else known[shape]
        # What holds of one text alone must never stand where a shape does.
        if text != shape and len(text) <= _LONGEST_REMEMBERED and len(_known) <= _REMEMBERED:
            _known[text] = of[text]
    for shape, made in alike.items():
        if len(shape) <= _LONGEST_REMEMBERED and len(_known) <= _REMEMBERED:
            _known[shape] = made
    return of


def zeroed(texts: Sequence[str]) -> list[str]:
    """The shape of each text: all its digits are 0. Templates of texts of one shape are mostly the same (`_for_all`)."""
    block = "\n".join(texts).encode("utf-8", "surrogatepass").translate(_ZEROED).decode("utf-8", "surrogatepass")
    shapes = block.split("\n")
    return shapes if len(shapes) == len(texts) else [shape for text in texts for shape in ["\n".join(zeroed(text.split("\n")))]]


def _for_all(shape: str, made: str) -> bool:
    """Whether `made`, the template of one text of that shape, is that of all: no digit stays, nor does it matter which one it was."""
    return _DIGIT.search(made) is None and _TOLD_APART.search(shape) is None


def _all_masked(texts: Sequence[str]) -> dict[str, str]:
    of: dict[str, str] = {}
    for start in range(0, len(texts), _TOGETHER):
        some = texts[start:start + _TOGETHER]
        of.update(zip(some, _masked(some)))     # noqa: B905 - Python 3.8
    return of


def _masked(texts: Sequence[str]) -> list[str]:
    texts = all_blanked(texts)
    block = "\n".join(texts)
    if len(block) > LONGEST or _OURS.search(block):
        texts = [text[:LONGEST] for text in texts]
        block = "\n".join([text.translate(_ESCAPED) if _OURS.search(text) else text for text in texts])
    block = "\n" + block       # so that the first text has what the others have before them
    if "*>" in block:
        block = block.replace("*>", "**>")
    for needle, pattern, to in _masks:
        if needle in block:
            block = pattern.sub(to, block)
    hidden = 0
    for needle, pattern in _kept:
        if needle in block:
            block, found = pattern.subn(_hide, block)
            hidden += found
    block = _NUMBER.sub(HOLE, _LETTERED.sub(_NUMERIC, block))
    return (block.translate(_SHOWN) if hidden else block).split("\n")[1:]


def _hide(match: re.Match[str]) -> str:
    before, bracket, number = match[0].rpartition(")")      # of an Xid, not the PCI address
    return before + bracket + number.translate(_HIDDEN)


def fill(made: str, chance: Random) -> str:
    """Some text of the template `made`: its template is `made` again.

    The values are too long to be any that is kept. After letters of a-f they make a hex number, which is masked with those: fb<*>, D<*>.
    """
    first, *rest = [part.replace("**>", "*>") for part in made.split(HOLE)]
    return first + "".join([f"{chance.randrange(10**9, 10**12)}{part}" for part in rest])


def nearest(made: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most like `made`, or None where none is like it: by words, then by characters among the few best."""
    from difflib import SequenceMatcher  # here: a node asks for none
    from heapq import nsmallest

    words = set(made[:_COMPARED].split())
    shared = []
    for other in known:
        others = set(other[:_COMPARED].split())
        if not words.isdisjoint(others):
            shared.append((-len(words & others) / len(words | others), other))
    matcher = SequenceMatcher(None, "", made[:_COMPARED], autojunk=False)
    found: tuple[float, str] | None = None
    for _, other in nsmallest(_CLOSEST, shared):
        matcher.set_seq1(other[:_COMPARED])
        alike = matcher.ratio()
        if alike >= _ALIKE and (found is None or alike > found[0]):
            found = alike, other
    return found[1] if found else None
