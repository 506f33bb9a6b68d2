"""pxe.yaml: what it may say, how a site's lies over the packaged one, and that each mistake is one line with
its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from inventory.errors import ConfigError, RulesError
from provisioning.osinstall.pxe.options import DhcpMode, ImageKind
from provisioning.osinstall.pxe.settings import load
from tests.healthcheck.help.pages import FOLDER, blocks
from tests.provisioning.osinstall.pxe.pxesite import KEY
from tests.tries import tries

SITE = f"""\
server: http://10.1.0.1:9850/
image: ubuntu-24.04
images:
  ubuntu-24.04: {{kind: ubuntu, kernel: noble/vmlinuz, initrd: noble/initrd, iso: http://10.1.0.1/noble.iso, arguments: [console=ttyS0]}}
  debian-12: {{kind: debian, kernel: linux, initrd: initrd.gz, disk: /dev/nvme0n1, packages: [chrony], values: {{rail: "1"}}}}
nodes: {{"gpu[001-003]": debian-12}}
authorized_keys: ["{KEY} me"]
dhcp: {{mode: full, interface: eth1, network: 10.1.0.0/24, range: [10.1.0.10, 10.1.0.20], router: 10.1.0.1, arm64: ipxe-arm64.efi}}
media: {{image: "http://10.1.0.1/{{node}}.iso"}}
"""  # noqa: E501


def site(folder: Path, text: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    (folder / "pxe.yaml").write_text(text)
    return [packaged(), folder]


def test_a_site_says_what_it_has_and_the_rest_is_packaged(tmp_path: Path) -> None:
    (tmp_path / "site/pxe").mkdir(parents=True)
    found = load(site(tmp_path / "site", SITE))
    assert (found.server == "http://10.1.0.1:9850" and found.minutes == 90 and found.user == "muster"
            and found.neighbours)
    assert (found.images["ubuntu-24.04"].kind is ImageKind.UBUNTU
            and found.images["debian-12"].values == {"rail": "1"})
    assert found.by_node == dict.fromkeys(("gpu001", "gpu002", "gpu003"), "debian-12")
    assert (found.dhcp is not None and found.dhcp.mode is DhcpMode.FULL
            and found.dhcp.loaders.arm64 == "ipxe-arm64.efi")
    assert found.media is not None and found.media.drive is None
    assert found.templates == (packaged() / "pxe", tmp_path / "site/pxe")


def test_a_later_file_changes_an_image_key_by_key(tmp_path: Path) -> None:
    folders = site(tmp_path / "one", SITE) + site(tmp_path / "two",
                                                  "images: {debian-12: {disk: /dev/sda}}\nminutes: 30\n")[1:]
    found = load(folders)
    assert (found.images["debian-12"].disk == "/dev/sda" and found.images["debian-12"].kernel == "linux"
            and found.minutes == 30)


def test_a_key_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text(f"{KEY} me\n")
    found = load(site(tmp_path / "site", SITE.replace(f"{KEY} me", str(tmp_path / "id.pub"))))
    assert found.authorized_keys == (f"{KEY} me",)


def test_without_a_site_it_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(RulesError,
                       match=r"no pxe\.yaml has the key server; put one into a folder of site rules"):
        load([packaged()])
    with pytest.raises(RulesError, match=r"no rules folder holds a pxe\.yaml"):
        load([tmp_path])


@pytest.mark.parametrize(("old", "new", "line", "said"), [
    ("server: http://10.1.0.1:9850/", "server: ftp://x", 1, "server: expected how machines reach"),
    ("server: http://10.1.0.1:9850/", "server: http://x/${net0/mac}", 1, "server: expected"),
    ("image: ubuntu-24.04\n", "image: none\n", 2, "no image 'none'; there are: debian-12, ubuntu-24.04"),
    ("image: ubuntu-24.04\n", "image: ubuntu-24.04\nimages2: {}\n", 3,
     "unknown key 'images2'; did you mean 'images'?"),
    ("kind: debian", "kind: arch", 5,
     "images: debian-12: kind: expected one of ubuntu, debian, custom, got 'arch'"),
    ("kind: debian, ", "", 5, "images: debian-12: no kind"),
    ("iso: http://10.1.0.1/noble.iso, ", "", 4, "no iso"),
    ("kernel: linux", "kernel: ../linux", 5, "kernel: expected an http(s) address, or a file below"),
    ("kernel: linux", "kernel: \"l inux\"", 5, "kernel: expected"),
    ("[console=ttyS0]", "[\"a b\"]", 4, "arguments: expected one argument of the kernel"),
    ("[console=ttyS0]", "[\"${x}\"]", 4, "arguments: expected one argument"),
    ("disk: /dev/nvme0n1", "disk: nvme0n1", 5, "disk: expected a device"),
    ("[chrony]", "[\"chrony; rm\"]", 5, "packages: expected the name of a package"),
    ("values: {rail: \"1\"}", "values: {rail: 1}", 5, "values: expected a map"),
    ("debian-12: {kind", "../x: {kind", 5, "is no name of an image"),
    ("debian-12: {kind", "ubuntu: {kind", 5, "images: ubuntu: an image of kind debian cannot have this name"),
    ("\"gpu[001-003]\": debian-12", "\"gpu[001-003]\": none", 6, "no image 'none'"),
    ("\"gpu[001-003]\": debian-12", "\"gpu[001-\": debian-12", 6, "gpu[001-"),
    ("\"gpu[001-003]\": debian-12", "\"gpu[001-003]\": debian-12, gpu002: ubuntu-24.04", 6,
     "gpu002 has two images"),
    (f"\"{KEY} me\"", "\"not a key\"", 7, "authorized_keys: expected a public SSH key"),
    (f"\"{KEY} me\"", "/nothing/there.pub", 7, "authorized_keys: expected a public SSH key"),
    ("interface: eth1", "interface: \"eth1 x\"", 8,
     "dhcp: interface: expected the name of a network interface"),
    ("network: 10.1.0.0/24", "network: 10.1.0.1/24", 8, "dhcp: network: expected a network"),
    ("range: [10.1.0.10, 10.1.0.20]", "range: [10.1.0.30, 10.1.0.20]", 8,
     "range has to be the first and the last"),
    ("range: [10.1.0.10, 10.1.0.20]", "range: [10.2.0.10, 10.2.0.20]", 8, "have to be in 10.1.0.0/24"),
    ("range: [10.1.0.10, 10.1.0.20], ", "", 8, "no range"), ("interface: eth1, ", "", 8, "no interface"),
    ("mode: full", "mode: both", 8, "one of proxy, full"),
    ("arm64: ipxe-arm64.efi", "arm64: /etc/passwd", 8, "arm64: expected the name of a file"),
    ("http://10.1.0.1/{node}.iso", "file:///etc/passwd", 9, "media: image: expected"),
])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, line: int,
                                              said: str) -> None:
    assert old in SITE
    with pytest.raises(ConfigError) as caught:
        load(site(tmp_path / "site", SITE.replace(old, new)))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/site/pxe.yaml:{line}:") and said in text and "\n" not in text, text


def test_the_example_of_the_topic_is_one(tmp_path: Path) -> None:
    (text,) = (text for language, text in blocks(FOLDER / "pxe.md") if language == "yaml")
    (tmp_path / "id.pub").write_text(f"{KEY} me\n")
    found = load(site(tmp_path / "site",
                      text.replace("/etc/muster/id_ed25519.pub", str(tmp_path / "id.pub"))))
    assert set(found.images) == {"ubuntu-24.04",
                                 "debian-12"} and found.dhcp is not None and len(found.by_node) == 8


@given(st.text(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=tries(60), deadline=None)
def test_no_text_at_all_is_a_traceback(tmp_path: Path, text: str) -> None:
    for whole in (text, SITE + text, SITE.replace("full", text, 1), SITE.replace("linux", text, 1)):
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site/pxe.yaml").write_bytes(whole.encode("utf-8", "replace"))
        try:
            load([packaged(), tmp_path / "site"])
        except ConfigError as problem:
            assert "\n" not in str(problem) or "\n" in str(tmp_path)
