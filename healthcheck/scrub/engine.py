"""The second pass: text goes in, and comes out with stand-ins for what was learned
and for all that has the form of an identity."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from healthcheck.scrub import patterns as forms
from healthcheck.scrub.classify import is_ip, is_public
from healthcheck.scrub.names import SensitiveNames
from healthcheck.scrub.replacements import StandIns
from healthcheck.scrub.words import ORDINARY

NODE = "node1"
_FORM = {
    "host name": "host{}", "user name": "user{}", "domain name": "domain{}.example", "site name": "site{}",
    "path name": "dir{}", "plug-in name": "plugin{}", "label": "label{}",
}
_HEXADECIMAL = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,64}")
# Identifiers that keep their form when a secret is one.
_IDENTIFIERS = (forms.UUID, forms.PAIRS, forms.IPV4, forms.IPV6, forms.FQDN, forms.BARE, forms.DOCKER_ID)

# What a pattern's match becomes; None leaves it to the patterns after it.
Handler = Callable[["Scrubber", "re.Match[str]"], "str | None"]
Table = Sequence[tuple[re.Pattern[str], Handler]]


class Scrubber:
    """One recording's stand-ins and the words that it was found to name.

    `own` is the node's own name; `patterns` are worked through before the learned words, `late` after them.
    """

    def __init__(
        self, names: SensitiveNames, replacements: StandIns, own: str, patterns: Table, late: Table,
    ) -> None:
        replacements.preset("host name", own, NODE)
        self.names = names
        self.replacements = replacements
        self._own = own
        self._patterns = patterns
        self._late = late
        self._cache: dict[str, str] = {}

    def named(self, kind: str, value: str) -> str:
        """The numbered stand-in of a thing of this kind."""
        return self.replacements.name(kind, value, _FORM[kind])

    def word(self, word: str) -> str:
        """The stand-in of a learned word, or of one that stands where a name of a host stands."""
        low = self.names.plain(word)
        kind = self.names.kinds.get(low, "host name")
        if kind in _FORM:
            return self.named(kind, low)
        made = self._like(kind, low)
        return made.upper() if word.isupper() else made

    def host(self, name: str) -> str:
        """A host's name in a place where nothing else stands;
        its first label and its domain have stand-ins of their own."""
        if not name or is_ip(name):
            return self.text(name)
        first, dot, domain = name.strip().partition(".")
        if first.lower() in ("localhost", "localhost4", "localhost6"):
            return name
        label = NODE if first.lower() == self._own else self.word(first)
        if not dot:
            return label
        known = domain.lower() if domain.lower() in self.names.kinds else ""
        return f"{label}.{self.word(known) if known else self.named('domain name', domain.lower())}"

    def domain(self, name: str) -> str:
        """A domain in a place where nothing else stands; one that everyone has,
        such as `.` or `local`, stays."""
        low = name.lower().strip(".")
        if is_public(low) or all(label in ORDINARY for label in low.split(".") if label) or is_ip(low):
            return self.text(name)
        made = self.word(low) if low in self.names.kinds else self.named("domain name", low)
        return made + "." * name.endswith(".")

    def user(self, name: str) -> str:
        """A user's name in a place where nothing else stands."""
        if name.lower() in ORDINARY:
            return name
        return self.word(name) if name.lower() in self.names.kinds else self.named("user name", name.lower())

    def opaque(self, kind: str, value: str) -> str:
        """One identity, whatever its form; a known form keeps it."""
        done = self.text(value)
        # Of a secret not the part alone that has a form: in user:password@192.0.2.1 the rest is the secret.
        known = value.strip("\"'").lower() in self.names.kinds
        part = kind == "secret" and not known and not any(form.fullmatch(value) for form in _IDENTIFIERS)
        return done if len(value) < 2 or (done != value and not part) else self._like(kind, value)

    def _like(self, kind: str, value: str) -> str:
        """Of its form; hexadecimal digits stay hexadecimal, as the ids of containers must."""
        if _HEXADECIMAL.fullmatch(value):
            return self.replacements.hexadecimal(kind, value)
        return self.replacements.like(kind, value)

    def text(self, text: str, patterns: bool = True) -> str:
        """Foreign text of any form, with all patterns and learned words replaced
        (without `patterns` only the words)."""
        return "\n".join(self._line(line, patterns) for line in text.split("\n"))

    def _line(self, line: str, patterns: bool) -> str:
        if not line:
            return line
        if len(line) > forms.LONGEST:
            cut = (max(line.rfind(" ", 0, forms.LONGEST), line.rfind(",", 0, forms.LONGEST)) + 1
                   or forms.LONGEST)
            return self._line(line[:cut], patterns) + self._line(line[cut:], patterns)
        prefix = ""
        if record := forms.RECORD.match(line):
            prefix, line = record[1], line[record.end():]
        key = line if patterns else ""
        if key in self._cache:
            return prefix + self._cache[key]
        done = self.worked(line, patterns)
        if key and len(self._cache) < 10_000:
            self._cache[key] = done
        return prefix + done

    def worked(self, line: str, patterns: bool = True, words: bool = True) -> str:
        """One line, with patterns replaced, or learned words, or both."""
        line = ("".join("?" if ord(c) >= forms.PLACE else c for c in line)
                if any(ord(c) >= forms.PLACE for c in line) else line)
        places: list[str] = []

        def put(text: str) -> str:
            if len(places) >= forms.PLACES:
                return "?"
            places.append(text)
            return chr(forms.PLACE + len(places) - 1)

        def apply(handler: Handler) -> Callable[[re.Match[str]], str]:
            def replacement(match: re.Match[str]) -> str:
                new = handler(self, match)
                return match[0] if new is None else put(new)
            return replacement

        if patterns:
            for pattern, handler in self._patterns:
                line = pattern.sub(apply(handler), line)
        if words:
            for begin, end in reversed(list(self.names.found(line))):
                line = line[:begin] + put(self.word(line[begin:end])) + line[end:]
            if self.names.sibling is not None:
                line = self.names.sibling.sub(lambda match: put(self.word(match[0])), line)
        for pattern, handler in self._late if patterns and words else ():
            line = pattern.sub(apply(handler), line)
        # What is put may hold places itself: a group of a match that another pattern had worked on before.
        while places and any(ord(c) >= forms.PLACE for c in line):
            line = "".join(places[ord(c) - forms.PLACE] if ord(c) >= forms.PLACE else c for c in line)
        return line
