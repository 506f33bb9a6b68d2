"""What proves that an operating system is installed: nothing but a positive sign, whatever else answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.text import clean
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.evidence import INSTALLERS, MarkerFile, WantedSigns, judged
from provisioning.osinstall.kernelline import SIGNS, Booted, tokens, words
from provisioning.osinstall.signs import OsSigns, SignsUnreadable, os_release, read
from tests.provisioning.osinstall.shown import LINE, packed, plain, text

NO_SIGN = WantedSigns()
SITE = WantedSigns(MarkerFile("/etc/site-image", "r7"))


def found(wanted: WantedSigns = NO_SIGN, **changes: Any) -> OsReport:
    return judged(read(packed(plain(**changes))), wanted)


def test_a_system_on_a_disk_that_has_come_up_is_installed_and_says_which_image() -> None:
    report = found()
    assert (report.state, report.image) == (OsState.INSTALLED, "site-7")
    assert (report.message
            == "its root file system is ext4 on /dev/nvme0n1p2, and its system has come up (running)")
    assert found(systemd="degraded").state is OsState.INSTALLED
    assert found(root=["zfs", "rpool/ROOT/site", "0:27"]).state is OsState.INSTALLED
    assert found(root=["btrfs", "/dev/sda3", "0:25"]).state is OsState.INSTALLED


@pytest.mark.parametrize("word", [
    "boot=casper", "autoinstall", "boot=live", "preseed/url=http://x/p.cfg", "preseed=file",
    "auto-install/enable=true",
    "debian-installer/locale=en", "inst.ks=http://x/ks", "inst.sshd", "ks=nfs:x", "rd.live.image",
    "root=live:CDLABEL=x",
    "autoyast=http://x", "coreos.inst.install_dev=sda"])
def test_the_word_of_an_installer_is_an_installation_and_never_a_pass(word: str) -> None:
    report = found(cmdline=text(f"{LINE} {word} quiet"))
    assert report.state is OsState.INSTALLING
    assert word in report.message
    assert "os: {marker:" in report.advice


@pytest.mark.parametrize("word", [
    "root=squash:http://10.0.0.1:5248/squashfs", "overlayroot=tmpfs", "overlayroot=tmpfs:recurse=0",
    "root=/dev/nfs",
    "nfsroot=10.0.0.1:/srv/x", "root=nfs:10.0.0.1:/x", "root=nfs4:10.0.0.1:/x",
    "wwinit.uri=http://10.0.0.1:9873/x"])
def test_a_stateless_system_proves_itself_only_by_the_sites_own_sign(word: str) -> None:
    line = text(f"{LINE} {word}")
    report = found(cmdline=line)
    assert report.state is OsState.UNKNOWN
    assert "marker" in report.advice
    assert found(SITE, cmdline=line, marker=text("image r7\n")).state is OsState.INSTALLED


def test_each_word_that_is_looked_for_names_who_documents_it() -> None:
    assert all(sign.source for sign in SIGNS)
    assert {sign.booted for sign in SIGNS} == set(Booted)
    assert all(INSTALLERS.values())


@pytest.mark.parametrize("root", [
    ["overlay", "/cow", "0:25"], ["squashfs", "/dev/loop0", "7:0"], ["tmpfs", "tmpfs", "0:22"],
    ["ramfs", "none", "0:2"],
    ["rootfs", "none", "0:2"], ["iso9660", "/dev/sr0", "11:0"], ["nfs4", "10.0.0.1:/x", "0:40"],
    ["erofs", "/dev/sda1", "8:1"],
    ["ext4", "/dev/loop3", "7:3"], ["ext4", "/dev/ram0", "1:0"], ["ext4", "/dev/zram0", "252:0"],
    ["xfs", "none", "0:31"],
    ["ext4", "/dev/mapper/live-rw", "253:0"], [], ["ext4"]])
def test_a_root_that_is_not_on_a_disk_is_not_taken_for_an_installed_system(root: list[str]) -> None:
    report = found(root=root)
    assert report.state is OsState.UNKNOWN
    assert "marker" in report.advice


@pytest.mark.parametrize(("words", "alone", "with_the_sign"), [
    (("initializing", "starting", "stopping"), OsState.INSTALLING, OsState.INSTALLING),
    (("maintenance",), OsState.UNKNOWN, OsState.UNKNOWN),
    (("offline", "unknown", "", ": No such file or directory"), OsState.UNKNOWN, OsState.INSTALLED)],
    ids=["starts or goes down: it is waited for", "a rescue shell is no installed system",
         "does not say: only the sign counts"])
def test_what_systemd_says_of_itself(words: tuple[str, ...], alone: OsState, with_the_sign: OsState) -> None:
    for word in words:
        assert found(systemd=word).state is alone, word
        assert found(SITE, systemd=word, marker=text("r7")).state is with_the_sign, word


@pytest.mark.parametrize("program", INSTALLERS)
def test_an_installer_that_runs_is_waited_for_whatever_lies_on_the_disk(program: str) -> None:
    report = found(SITE, running=[program], marker=text("r7"))
    assert report.state is OsState.INSTALLING
    assert program in report.message


def test_cloud_init_is_waited_for() -> None:
    assert found(cloud_init="modules-final").state is OsState.INSTALLING
    assert "modules-final" in found(SITE, cloud_init="modules-final", marker=text("r7")).message


def test_a_marker_must_be_there_and_hold_what_it_is_to() -> None:
    assert found(SITE, marker=text("image r7\n")).state is OsState.INSTALLED
    absent = found(SITE, marker=text(None))
    assert (absent.state, absent.message) == (OsState.UNKNOWN, "it has no /etc/site-image")
    assert found(SITE, marker=text("image r6\n")).message == "/etc/site-image does not hold r7"
    assert "is a FIFO" in found(SITE, marker=text(None, "/etc/site-image is a FIFO")).message
    any_ = WantedSigns(MarkerFile("/etc/site-image"))
    assert found(any_, marker=text("")).state is OsState.INSTALLED
    assert found(any_, marker=text(None), cmdline=text("boot=casper")).state is OsState.INSTALLING


def test_an_image_goes_by_its_id_or_its_id_and_version_in_os_release() -> None:
    for name in ("site", "site-7"):
        assert found(WantedSigns(image=name)).state is OsState.INSTALLED
    for name in ("7", "site-8", "ubuntu"):
        report = found(WantedSigns(image=name))
        assert ((report.state, report.message)
                == (OsState.UNKNOWN, f"its os-release names the image site-7, not the image {name}"))
    assert "no IMAGE_ID" in found(WantedSigns(image="site"), release=text("ID=x\n")).message
    both = WantedSigns(MarkerFile("/etc/site-image"), "site")
    assert found(both, marker=text("")).state is OsState.INSTALLED
    assert found(both, marker=text(None)).state is OsState.UNKNOWN


def test_what_could_not_be_read_proves_nothing() -> None:
    assert found(cmdline=text(None, "permission denied")).state is OsState.UNKNOWN
    assert found(release=text(None)).state is OsState.UNKNOWN


WORD = st.text(st.characters(codec="utf-8", exclude_characters='"'),
               min_size=1).filter(lambda one: one.split() == [one])


@given(st.lists(WORD, max_size=8))
def test_a_command_line_without_quotes_is_its_words(given_: list[str]) -> None:
    assert words(" ".join(given_) + "\n") == tuple(given_)


@given(st.lists(WORD, max_size=4), st.sampled_from([sign.glob.replace("*", "x") for sign in SIGNS]),
       st.lists(WORD, max_size=4))
def test_a_word_of_an_installer_is_found_wherever_it_stands_and_keeps_from_passing(
    before: list[str], word: str, after: list[str],
) -> None:
    line = " ".join([*before, word, *after])
    assert word in [one.word for one in tokens(line)]
    assert found(cmdline=text(line)).state is not OsState.INSTALLED


@given(st.text())
def test_any_command_line_is_read_and_shown_on_one_clean_line(line: str) -> None:
    report = judged(read(packed(plain(cmdline=text(line)))), NO_SIGN)
    assert clean(report.message) == report.message
    assert len(report.message) <= 300


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner,
                                                                                max_size=4), max_leaves=8)


@given(st.binary() | JSON.map(packed) | st.dictionaries(st.sampled_from(list(plain())),
                                                        JSON).map(lambda one: packed(plain(**one))))
def test_a_machine_may_report_anything_and_is_read_or_refused(body: bytes) -> None:
    try:
        signs = read(body)
    except SignsUnreadable:
        return
    assert isinstance(signs, OsSigns)
    report = judged(signs, SITE)
    assert clean(report.message) == report.message
    assert clean(report.image) == report.image


@given(st.text())
def test_any_os_release_is_read(given_: str) -> None:
    assert all(key.isascii() for key in os_release(given_))


def test_os_release_is_read_without_quotes_and_the_last_of_a_name_counts() -> None:
    assert os_release("# x\nID=a\nID='b'\nNAME=\"c d\"\nbad line\n") == {"ID": "b", "NAME": "c d"}
