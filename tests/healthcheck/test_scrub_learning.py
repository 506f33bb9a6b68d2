"""What a recording is found to name: the first place that names a word says of what kind it is,
in every run."""

from __future__ import annotations

import pytest

from healthcheck.scrub.learning import learned
from inventory.model import Node

WORDS = [f"{one}{two}ith" for one in ("zor", "vek", "tul", "qua", "mib")
         for two in ("pyx", "gro", "wix", "jev")]
USERS = [f"login: userid={word}(1000)" for word in WORDS]
SITES = [f"slurmd: ClusterName={word}" for word in WORDS]


@pytest.mark.parametrize(("lines", "kind"), [(USERS + SITES, "user name"), (SITES + USERS, "site name")])
def test_of_two_places_that_name_a_word_the_first_says_what_it_is(lines: list[str], kind: str) -> None:
    names = learned([], Node(name="qx7"), (), (), "\n".join(lines))
    assert {word: names.kinds[word] for word in WORDS} == dict.fromkeys(WORDS, kind)


def test_a_learned_word_is_found_where_it_stands_alone_and_beside_digits_but_in_no_longer_word() -> None:
    names = learned([], Node(name="qx7"), (), ["zorpyx"], "")
    line = "zorpyx ZORPYX7 zorpyxes /srv/zorpyx-2"
    assert [line[begin:end] for begin, end in names.found(line)] == ["zorpyx", "ZORPYX", "zorpyx"]
