"""Recognising a file: every kind by what it holds, what is no known kind with the nearest guess,
and bounds that hold for any bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import time
import zipfile
from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from healthcheck.explain import recognise as recognising
from healthcheck.explain.model import FileKind
from healthcheck.explain.page import document, page
from healthcheck.explain.recognise import open_file, opened_of, recognise
from inventory.errors import UsageError
from tests.healthcheck.explain.cases import FOLDER, explained
from tests.tries import tries

FORMS = {".dmesg": FileKind.KERNEL, ".kern.log": FileKind.KERNEL, ".bug-report.log": FileKind.BUG_REPORT,
         ".nvidia-smi-q.txt": FileKind.SMI, ".dcgm.json": FileKind.DCGM, ".nccl.log": FileKind.JOB,
         ".torchrun.log": FileKind.JOB, ".slurm.out": FileKind.JOB, ".nccl-tests.txt": FileKind.NCCL_TESTS}


@pytest.mark.parametrize("path", [path for path in sorted(FOLDER.iterdir()) if path.suffix != ".md"],
                         ids=lambda path: path.name)
def test_a_file_is_known_by_what_it_holds_and_not_by_its_name(path: object) -> None:
    name = str(getattr(path, "name", ""))
    expected = next(form for end, form in FORMS.items() if name.endswith(end))
    assert recognise(opened_of((FOLDER / name).read_bytes(), "x")) is expected


def _tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(FOLDER / "healthy.dmesg", "healthy.dmesg")
    return made.getvalue()


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.write(FOLDER / "healthy.dmesg", "healthy.dmesg")
    return made.getvalue()


@pytest.mark.parametrize(("data", "guess"), [
    (b"the quick brown fox\n", "is not a kind of file that muster explains (kernel log, NVIDIA bug report, "),
    (b"| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |\n",
     "give what nvidia-smi -q"),
    (_zip(), "it is a zip archive"), (gzip.compress(_tar()), "it is a tar archive"),
    (b"\x7fELF\x02\x01\x01" + bytes(200), "core dump"), (pickle.dumps({"a": 1}), "pickle"),
    (b'{"schema": "muster.sweep/1", "started": ""}', "give the folder"),
    (b'{"a": 1}', "it is JSON of none of these"), (b'{"a": [1, 2', "JSON that ends early"),
    (b"CA 'mlx5_0'\n\tCA type: MT4129\n", "it is ibstat's"),
], ids=["text", "table", "zip", "tar", "program", "pickle", "manifest", "json", "cut-json", "ibstat"])
def test_what_is_no_known_kind_gets_the_kinds_that_are_and_the_nearest_guess(data: bytes, guess: str) -> None:
    with pytest.raises(UsageError) as refused:
        recognise(opened_of(data, "odd"))
    assert guess in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"\n \n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="is empty"):
        opened_of(data, "nothing.log")


@pytest.mark.parametrize("pack", [gzip.compress, partial(lzma.compress, preset=0), bz2.compress])
def test_a_packed_bomb_is_refused_before_it_is_whole(pack: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recognising.MOST == 256 << 20
    monkeypatch.setattr(recognising, "MOST", 16 << 20)
    bomb = pack(bytes((16 << 20) + 10))  # type: ignore[operator]
    assert len(bomb) < 1 << 16
    with pytest.raises(UsageError, match="longer than 16 MiB; use its end"):
        opened_of(bomb, "bomb")


def test_a_file_of_very_many_packed_members_is_read_in_bounded_time() -> None:
    started = time.process_time()
    opened = opened_of(gzip.compress(b"x\n") + gzip.compress(b"", mtime=0) * 300_000, "many.gz")
    assert time.process_time() - started < 30
    assert opened.caveats


def test_a_missing_file_and_a_folder_are_refused_in_one_line(tmp_path: object) -> None:
    for path in (f"{tmp_path}/none.log", str(tmp_path)):
        with pytest.raises(UsageError, match="cannot be read"):
            open_file(path)


_PIECES = st.sampled_from([
    b"gpu1:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.1<1> with status=12 opcode=0 hca "
    b"mlx5_0\n",
    b"[rank1]:[E1120 02:07:08.4 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation "
    b"timeout: WorkNCCL(SeqNum=9, OpType=A",
    b"Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: "
    b"1)\n  traceback : x\n",
    b"#  size   count  type  redop root  time algbw busbw #wrong time algbw busbw #wrong\n",
    b" 8 2 float sum -1 1 2 3 4 1 2 3 4\n", b"nan inf N/A 1e+05 99999999999999999999999 ",
    b"# Out of bounds values : 9 FAILED\n", b"# Avg bus bandwidth : 1\n",
    b"[    1.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n",
    b"<nvidia_smi_log><gpu id=\"", b"</gpu>", b"==============NVSMI LOG==============\n",
    b"GPU 00000000:1B:00.0\n    ECC Errors\n        Volatile\n", b"    Product Name : \x1b[31m\n",
    b"Start of NVIDIA bug report log file\n", b"____________________________________________\n\n",
    b"dmesg:\n\n",
    b"lspci -nnDvvvxxxx\n0000:1b:00.0 3D controller [0302]: x [10de:2330]\n\tLnkSta:\tSpeed x, Width x8 "
    b"(downgraded)\n",
    b"srun: error: gpu[1-999999]: tasks 0-9: Killed\n",
    b"slurmstepd: error: *** STEP 1.0 ON x CANCELLED AT 2026-13-41T99:99:99 DUE TO ",
    b'{"schema": "muster.recording/1", ',
    b'{"schema": "muster.check/1", "nodes": [{"results": [{"status": "fail", "findings": [1, {}]}]}]}',
    b'{"DCGM Diagnostic": {"test_categories": []}}',
    b'{"out_of_bounds": 1, "results": [{"size": 1, "in_place": {"time": "nan"}}]}',
    b'{"pg_status": {}, "entries": [{"collective_seq_id": 1}]}', b"\x80\x04pg_status", b"\xff\xfe\x00", b"\r",
    b"\x00", b"\xe2\x80\xa8", "İ".encode(), b"CUDA error: ", b"uncorrectable ECC error",
    b"Traceback (most recent call last):\n",
])


@settings(max_examples=tries(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=300),
                 st.lists(st.one_of(_PIECES, st.binary(max_size=20)), max_size=14).map(b"".join)))
@example(b'{"schema": "muster.check/1", "nodes": [{"results": [{"status": "fail", "findings": [1, {}]}]}]}')
@example(b'{"out_of_bounds": 1, "results": [{"size": 1, "in_place": {"time": "nan"}}]}')
def test_any_bytes_are_explained_or_refused_in_one_line_and_never_raise(data: bytes) -> None:
    try:
        told = explained(data, "any\x1b")
    except UsageError as refused:
        assert "\n" not in str(refused)
        return
    said = page(told) + json.dumps(document(told))
    assert "\x1b" not in said
    assert told.exit_code in (0, 1, 3)


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(path.name for path in FOLDER.iterdir() if path.suffix != ".md")), st.data())
def test_a_composed_file_that_was_damaged_never_raises(name: str, data: st.DataObject) -> None:
    whole = bytearray((FOLDER / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at:at + data.draw(st.integers(0, 200))] = data.draw(st.binary(max_size=8))
        if not whole:
            return
    try:
        page(explained(bytes(whole), name))
    except UsageError as refused:
        assert "\n" not in str(refused)


@pytest.mark.parametrize("piece", [
    b"NCCL INFO Using NCCL INFO ", b"NCCL WARN NET/IB: Got completion from peer ", b"[rank1] CUDA error: ",
    b"[Errno 5] Input/output error ", b"Bootstrap : Using a:", b"srun: error: a", b"Channel via NET/Socket/ ",
    b"Xid (PCI:0000:3b:00): 79, ",
])
def test_one_line_without_an_end_takes_linear_time(piece: bytes) -> None:
    def seconds(times: int) -> float:
        started = time.process_time()
        explained(b"gpu1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n" + piece * times, "x")
        return time.process_time() - started

    seconds(100)
    assert seconds(200_000) < 40 * max(seconds(20_000), 0.05)


def test_a_log_of_which_only_known_messages_match_a_line_is_a_jobs() -> None:
    assert explained(b"step 1 loss: 2.3\nstep 2 loss: nan\n").form is FileKind.JOB
    assert explained(b"rack1-gpu03: step 2 loss: nan\n").exit_code == 1
