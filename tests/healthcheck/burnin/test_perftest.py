"""What ib_write_bw is given, and what is read of its output: recorded ones, and anything at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.perftest import WriteRate, read, words

LINE = "-" * 87
HEAD = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
# linux-rdma/perftest, issue 273 (2024-08-03), one size for a time, as with -D.
DURATION = f"""                    RDMA_Write Post List BW Test
 Dual-port       : OFF\t\tDevice         : ib0
 Number of qps   : 1\t\tTransport type : IB
 Link type       : Ethernet
 GID index       : 2
{LINE}
{HEAD}
 8          224958464        0.00               0.48   \t\t   7.498617
{LINE}
"""
# The same, issue 132 (2023-08-24): all sizes, with more digits of small rates.
SIZES = f"""                    RDMA_Write BW Test
{LINE}
{HEAD}
 2          5000           0.042350            0.042185            2.636533
 4          5000           0.084507            0.084457            2.639276
 8          5000             0.17               0.17   \t\t   2.641399
"""
# The same, issue 234 (2023-12-22), without --report_gbits; the figures of its row are made up.
MEGABYTES = f"""{LINE}
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      664644           0.00               11000.00\t\t   0.176000
{LINE}
"""
# perftest 4.5+0.17 of Debian 12 between two virtual machines with rdma_rxe, with -b -D 8 -q 2: small rates
# have more digits.
SOFT = f"""                    RDMA_Write Bidirectional BW Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 2\t\tTransport type : IB
 Link type       : Ethernet
{LINE}
 local address: LID 0000 QPN 0x0011 PSN 0x3fe63a RKey 0x0002a3 VAddr 0x007f68bba5e000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:216:44:02
{LINE}
{HEAD}
 65536      168           0.000000            0.043793            0.000084
{LINE}
"""
# The same where packets were lost for too long: both ends print no rate.
FAILED = f"""{LINE}
{HEAD}
 Completion with error at client
 Failed status 5: wr_id 1 syndrom 0x0
scnt=521, ccnt=265
 Failed to complete run_iter_bw function successfully
"""
PARAMS: dict[str, int | float | str] = {"bytes": 65536, "run_s": 10.0, "device_a": "mlx5_0",
                                        "port_a": 1, "gid_a": -1,
                                        "device_b": "mlx5_3", "port_b": 2, "gid_b": 3}


def test_the_rate_of_a_run_for_a_time_is_read() -> None:
    assert read(DURATION) == WriteRate(0.48, 8, 224958464)
    assert read(SOFT) == WriteRate(0.043793, 65536, 168)
    noise = ("Conflicting CPU frequency values detected: 800.000000 != 2100.000000. CPU Frequency is "
             "not max.\n")
    assert read(noise + DURATION.replace("\n", "\r\n").replace("\r\n", "\n")) == read(DURATION)


@pytest.mark.parametrize(("text", "said"), [
    (SIZES, "it printed 3 rates, expected one"),
    (MEGABYTES, "its rate is in MB/sec, expected Gb/sec"),
    ("", "it printed no rate"),
    (FAILED, "it printed no rate: Failed to complete run_iter_bw function successfully"),
    (" Couldn't connect to 10.0.0.1:18515\n", "it printed no rate: Couldn't connect to 10.0.0.1:18515"),
    (f"{LINE}\n Unable to open \x1b[31mfile\n{LINE}\n", "it printed no rate: Unable to open \\x1b[31mfile"),
    (f"{HEAD}\n 8   5   0.00   nan   1.0\n", "its rate is 'nan'"),
    (f"{HEAD}\n 8   5   0.00   -1   1.0\n", "its rate is '-1'"),
])
def test_what_is_no_single_rate_in_gigabits_is_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="rate") as raised:
        read(text)
    assert str(raised.value) == said


@given(st.text(max_size=300), st.floats(0.01, 1e4), st.integers(1, 10**12), st.text(max_size=100))
def test_a_rate_is_read_whatever_lines_are_around_it(before: str, rate: float, count: int,
                                                     after: str) -> None:
    before, after = (text.replace("#", "").replace("\n", "\n ") for text in (before, after))
    rows = (f"\n{HEAD}\n 65536      {count:<10}       0.00               {rate:<7.2f}\t\t     0.005722\n"
            f"{LINE}\nend: ")
    assert read(before + rows + after) == WriteRate(float(f"{rate:.2f}"), 65536,
                                                    count) or len(after.split()) >= 5


@given(st.text(alphabet=st.sampled_from(list("#bytes iterations[]GMB/sec0123456789.-\n\t")), max_size=400))
def test_other_text_is_a_rate_or_one_line_that_says_why_not(text: str) -> None:
    try:
        assert read(text).gbps > 0
    except ValueError as error:
        assert "\n" not in str(error) and "rate" in str(error)


def test_each_side_has_its_device_port_and_gid_and_one_connects_to_the_other() -> None:
    listens, connects = words(PARAMS, "a", 2), words(PARAMS, "b", 2, "10.0.0.1", 70.5)
    common = "-s 65536 -q 2 -b -D 10 -u 14 -F --report_gbits -p 18517"
    assert " ".join(listens) == f"timeout --foreground -k 5 60 ib_write_bw -d mlx5_0 -i 1 {common}"
    assert (" ".join(connects)
            == f"timeout --foreground -k 5 71 ib_write_bw -d mlx5_3 -i 2 {common} -x 3 10.0.0.1")
    assert "-D 5" in " ".join(words({**PARAMS, "run_s": 1}, "a", 0))


@pytest.mark.parametrize(("device", "address", "said"), [
    ("mlx5_0; reboot", "", "'mlx5_0; reboot' is no name of an RDMA device"),
    ("--use_hugepages", "", "'--use_hugepages' is no name of an RDMA device"),
    ("mlx5_0", "-h", "'-h' is no address"),
    ("mlx5_0", "10.0.0.1 x", "'10.0.0.1 x' is no address"),
])
def test_what_could_be_another_option_is_no_device_and_no_address(device: str, address: str,
                                                                  said: str) -> None:
    with pytest.raises(ValueError, match="is no") as raised:
        words({**PARAMS, "device_a": device}, "a", 0, address)
    assert str(raised.value) == said
