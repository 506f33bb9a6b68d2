"""Which images are wanted: references and images.yaml, read with one clear line for what is wrong."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import RulesError, UsageError
from inventory.model import Node
from provisioning.images.onnode.reference import split
from provisioning.images.wanted import FILE, from_words, load

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(("text", "parts"), [
    (f"nvcr.io/nvidia/pytorch:24.10-py3@{DIGEST}", ("nvcr.io/nvidia/pytorch", "24.10-py3", DIGEST)),
    (f"registry:5000/app@{DIGEST}", ("registry:5000/app", "", DIGEST)),
    (f"localhost/app@{DIGEST}", ("localhost/app", "", DIGEST)),
    ("ubuntu", ("docker.io/library/ubuntu", "", "")),
    ("ubuntu:24.04", ("docker.io/library/ubuntu", "24.04", "")),
    ("team/app:1", ("docker.io/team/app", "1", "")),
    ("index.docker.io/team/app", ("docker.io/team/app", "", "")),
    ("127.0.0.1:5000/a/b__c/d-e.f:T_1", ("127.0.0.1:5000/a/b__c/d-e.f", "T_1", "")),
    ("[2001:db8::1]:5000/app", ("[2001:db8::1]:5000/app", "", "")),
])
def test_a_reference_is_a_repository_by_its_full_name_a_tag_and_a_digest(text: str,
                                                                         parts: tuple[str, str, str]) -> None:
    assert split(text) == parts


@pytest.mark.parametrize("text", [
    "", "/", ":", "@", "Team/App", "a//b", "app:", "app:-x", "-app", "app@", "app@sha256:12",
    f"app@{DIGEST}0", f"user:pw@host/app@{DIGEST}",
    "https://host/app", "host/app\n", "host/app --all", "$(id)/app", "a" * 600, "app@md5:" + "0" * 32,
])
def test_what_is_no_reference_is_none(text: str) -> None:
    assert split(text) is None


@given(st.text(alphabet=string.ascii_letters + string.digits + "./:@-_[] \n$",
               max_size=80) | st.text(max_size=40))
def test_whatever_is_taken_for_a_reference_is_a_plain_word_that_is_read_as_the_same_again(text: str) -> None:
    parts = split(text)
    if parts is not None:
        repository, tag, digest = parts
        whole = repository + (":" + tag if tag else "") + ("@" + digest if digest else "")
        assert split(whole) == parts
        assert not whole.startswith("-") and whole.isascii() and whole.isprintable() and " " not in whole


def test_a_tag_alone_is_refused_with_how_to_find_its_digest() -> None:
    with pytest.raises(UsageError,
                       match=r"it has no digest, and a tag may mean another image "
                             r"tomorrow.*imagetools inspect"):
        from_words(["nvcr.io/nvidia/pytorch:24.10-py3"])
    with pytest.raises(UsageError, match="without a scheme and a password"):
        from_words([f"puller:pw@host/app@{DIGEST}"])


def test_images_are_wanted_by_sku_profile_and_label_and_a_later_folder_overrides(tmp_path: Path) -> None:
    for name, text in {
        "one": f"images:\n- {{id: pytorch, image: 'nvcr.io/nvidia/pytorch:1@{DIGEST}', skus: [hgx-h100], "
               f"size_gib: 21.5}}\n"
               f"- {{id: old, image: 'host.site/old@{DIGEST}'}}\n",
        "two": f"images:\n- {{id: old, enabled: false}}\n- {{id: web, image: 'host.site/web@{DIGEST}', "
               f"labels: {{use: web}}, profiles: [gate]}}\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(text)
    pytorch, web = load([tmp_path / "one", tmp_path / "two", tmp_path])
    assert (pytorch.id, pytorch.reference, pytorch.size) == ("pytorch", f"nvcr.io/nvidia/pytorch:1@{DIGEST}",
                                                             int(21.5 * 2**30))
    assert pytorch.of(Node("a", sku="hgx-h100")) and not pytorch.of(Node("b", sku="other"))
    assert web.of(Node("c", profile="gate", labels={"use": "web", "x": "y"}))
    assert not web.of(Node("d", profile="gate")) and not web.of(Node("e", labels={"use": "web"}))
    assert load([tmp_path]) == ()


@pytest.mark.parametrize(("text", "said"), [
    ("[]", r"images.yaml:1:1: expected a map with images, got a list"),
    ("image: []", r"1:1: unknown key 'image'; did you mean 'images'\?"),
    ("images: x", r"1:9: images: expected a list, got 'x'"),
    ("images:\n- {image: x}", r"2:3: id: expected a name"),
    ("images:\n- {id: a}", r"2:3: images: a: image is missing: expected NAME@sha256:DIGEST"),
    ("images:\n- {id: a, image: 'host.site/a:1'}", r"2:18: images: a: image: it has no digest"),
    ("images:\n- {id: a, image: 7}", r"2:18: images: a: image: expected a reference, got 7"),
    (f"images:\n- {{id: a, image: 'h.site/a@{DIGEST}', labels: [x]}}",
     r"images: a: labels: expected a map of names and texts"),
    (f"images:\n- {{id: a, image: 'h.site/a@{DIGEST}', size_gib: -1}}",
     r"images: a: size_gib: expected a number from 0 to 4096"),
    (f"images:\n- {{id: a, image: 'h.site/a@{DIGEST}', sku: [b]}}",
     r"unknown key 'sku'; did you mean 'skus'\?"),
    (f"images:\n- {{id: a, image: 'h.site/a@{DIGEST}'}}\n- {{id: a, image: 'h.site/a@{DIGEST}'}}",
     r"3:3: id a is defined twice"),
])
def test_what_is_wrong_with_a_file_is_one_line_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(RulesError, match=said) as caught:
        load([tmp_path])
    assert "\n" not in str(caught.value)
