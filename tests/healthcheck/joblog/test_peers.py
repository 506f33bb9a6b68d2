"""Who says that a peer is gone is no culprit: its peer is, by address, GID or name,
and as far as several nodes say so.

Lines as in NVIDIA/nccl issues 1664, 1814 and 2397, stas00/ml-engineering
network/README and openucx/ucx issues 5199, 6669 and 9590.
"""

from __future__ import annotations

import pytest

from healthcheck.joblog.meaning import Sure
from tests.healthcheck.joblog.told import accused, cause, culprit, told

NODES = ("gpu011", "gpu012", "gpu017", "gpu018")


def retry(
    node: str, peer: str, *, form: str = "plain", local: str = "", remote: str = "", status: int = 12,
) -> str:
    """A completion with an error, as three generations of NCCL print it."""
    gids = f" localGid {local} remoteGids{remote}" if local else ""
    said = {
        "old": f"transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {peer}<5592> with "
        f"error {status}, opcode 1, len 0, vendor err 129 (Send)",
        "plain": f"transport/net_ib.cc:2244 NCCL WARN NET/IB: Got completion from peer {peer}<39226> with "
        f"status={status} opcode=32224 len=0 vendor err 129 (Recv){gids} hca mlx5_3",
        "named": f"transport/net_ib/p2p.cc:648 NCCL WARN NET/IB: Got completion from peer {peer}<40554> with "
        f"status=IBV_WC_X_ERR({status}) opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129{gids} "
        "hca mlx5_1",
        "device": "transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: mlx5_0:1 Got completion from peer "
        f"{peer}<40554> with status=IBV_WC_X_ERR({status}) opcode=IBV_WC_SEND(0) reqSize=0 "
        "vendor_err=129 req_type=Send",
    }[form]
    return f"{node}:4012:4412 [0] {said}\n"


def using(node: str, address: str) -> str:
    return f"{node}:4012:4412 [0] NCCL INFO Bootstrap : Using bond0:{address}<0>\n"


@pytest.mark.parametrize("form", ["old", "plain", "named", "device"])
def test_the_peer_that_several_nodes_name_is_accused_and_not_they(form: str) -> None:
    text = using("gpu017", "10.20.0.17") + retry("gpu012", "10.20.0.17", form=form) + retry(
        "gpu018", "10.20.0.17", form=form)
    first = culprit(text)
    assert (first.who.node, first.meaning.id, first.sure) == ("gpu017", "ib-retry", Sure.LIKELY)
    assert {who.node for who in first.by} == {"gpu012", "gpu018"}


def test_the_ranks_of_one_node_are_one_voice() -> None:
    text = using("gpu017", "10.20.0.17") + "".join(f"gpu012:{pid}:{pid} [{pid}] NCCL INFO comm 0x1 rank "
                                                   f"{pid} nranks 16 cudaDev {pid} busId 1 - Init COMPLETE\n"
                                                   for pid in range(8)) + "".join(
                                                       retry("gpu012",
                                                             "10.20.0.17").replace(":4012:4412 [0]",
                                                                                   f":{pid}:{pid} [{pid}]")
                                                       for pid in range(8))
    first = culprit(text)
    assert (first.who.node, first.sure) == ("gpu017", Sure.GUESS)


THERE, USING = "10.20.0.17", using("gpu017", "10.20.0.17")
ALL_BUT_ONE = "".join(retry(node, THERE) for node in NODES if node != "gpu017")
NOT_CONNECTED = (
    "{}:1:2 [0] misc/ibvwrap.cc:376 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed "
    "out, on dev "
    "mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.224.0.1, remote GID "
    "::ffff:10.224.3.40\n")
LOST_AND_SICK = (
    "gpu011:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
    "gpu017<45678>\n"
    "gpu018:1:2 [0] enqueue.cc:1402 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n")
UCX = "".join(
    f"[{node}:{pid}:0:{pid}] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 "
    f"vend 0x81 "
    f"hw_synd 0/0)\n[{node}:{pid}:0:{pid}] ib_mlx5_log.c:143  DCI QP 0x10f3a wqe[446]: SEND s-e [rqpn "
    f"0x32ca rlid "
    "1935] [inl len 20]\n" for node, pid in (("gpu011", 27251), ("gpu012", 30536), ("gpu018", 30540)))
OPEN_MPI = (
    "WARNING: Open MPI failed to TCP connect to a peer MPI process.\n\n  Local host: gpu011\n  PID:      "
    "  4711\n"
    "  Message:    connect() to 10.1.2.3:1024 failed\n  Error:      No route to host (113)\n")
LAST_ERROR = "".join(
    f"[rank{rank}]: Last error:\n[rank{rank}]: NET/IB: Got completion from peer {THERE}<39226> with "
    f"status=12 "
    "opcode=32224 len=0 vendor err 129 (Recv) localGid fe80:: remoteGidsfe80:: hca mlx5_3\n"
    for rank in (0, 8))
# The lines, the nodes of the job, the inventory's addresses, and who is accused.
ACCUSED: dict[str, tuple[str, tuple[str, ...], dict[str, str], str]] = {
    "one node that says so of several peers while nobody else does is itself accused":
        ("".join(retry("gpu012", f"10.20.0.{at}") for at in (11, 17, 18)), NODES, {}, "gpu012"),
    "the sick node that names all others is accused by those who name it":
        (USING + retry("gpu017", "10.20.0.11") + retry("gpu017", "10.20.0.12") + retry("gpu011", THERE)
         + retry("gpu012", THERE), (), {}, "gpu017"),
    "an address": (retry("gpu012", THERE) + retry("gpu018", THERE), (), {}, THERE),
    "an address leads to a node by the inventory":
        (retry("gpu012", THERE) + retry("gpu018", THERE), (), {THERE: "rack2-gpu07"}, "rack2-gpu07"),
    "an address leads to a node by the GID that the node itself calls its own":
        (retry("gpu012", THERE, local="fe80::12", remote="fe80::17")
         + retry("gpu018", THERE, local="fe80::18", remote="fe80::17")
         + retry("gpu017", "10.20.0.12", local="fe80::17", remote="fe80::12"), (), {}, "gpu017"),
    "where all nodes but one name an address that one is behind it": (ALL_BUT_ONE, NODES, {}, "gpu017"),
    "but not where its address is known to be another one":
        (using("gpu017", "10.20.9.9") + ALL_BUT_ONE, NODES, {}, THERE),
    "flushed work is no vote":
        (USING + using("gpu011", "10.20.0.11") + retry("gpu012", THERE)
         + "".join(retry(node, "10.20.0.11", status=5) for node in ("gpu012", "gpu017", "gpu018")), (),
         {}, "gpu017"),
    "the remote GID of a connection that could not be made is the peer":
        (NOT_CONNECTED.format("gpu011") + NOT_CONNECTED.format("gpu012"), (),
         {"10.224.3.40": "gpu040"}, "gpu040"),
    "a lost peer is no cause where another error is known": (USING + LOST_AND_SICK, (), {}, "gpu018"),
    "UCX names the port to which it sent": (UCX, (), {}, "LID 1935"),
    "and not the node that says so": (UCX, NODES, {}, "gpu017"),
    "Open MPI names the peer that it could not reach": (OPEN_MPI, (), {"10.1.2.3": "gpu003"}, "gpu003"),
    "the peer that PyTorch repeats of NCCL's last error": (LAST_ERROR, (), {}, THERE),
    "and its node": (USING + LAST_ERROR, (), {}, "gpu017"),
}


@pytest.mark.parametrize(("text", "nodes", "addresses", "who"), ACCUSED.values(), ids=ACCUSED)
def test_who_is_accused(text: str, nodes: tuple[str, ...], addresses: dict[str, str], who: str) -> None:
    assert accused(text, nodes, addresses) == who


def test_two_nodes_that_name_each_other_are_both_a_guess() -> None:
    text = using("gpu011", "10.20.0.11") + using("gpu012", "10.20.0.12") + retry(
        "gpu011", "10.20.0.12") + retry("gpu012", "10.20.0.11")
    assert [(charge.who.node, charge.sure) for charge in told(text) if charge.cause] == [
        ("gpu012", Sure.GUESS), ("gpu011", Sure.GUESS)]


@pytest.mark.parametrize(("peer", "nodes", "node"), [
    ("gpu017.cluster.local", NODES, "gpu017"), ("GPU017", NODES, "gpu017"),
    ("10.20.0.17", ("ip-10-20-0-12", "ip-10-20-0-17", "x"), "ip-10-20-0-17"),
])
def test_a_peer_that_is_called_by_a_name_is_that_node(peer: str, nodes: tuple[str, ...], node: str) -> None:
    assert accused(retry(nodes[0], peer) + retry("x", peer), nodes) == node


@pytest.mark.parametrize(("status", "id_", "of", "symptom"), [
    (12, "ib-retry", "gpu017", False), (13, "ib-receiver-not-ready", "gpu017", False),
    (5, "ib-flushed", "gpu017", True), (4, "ib-protection", "gpu012", False),
    (10, "ib-protection", "gpu012", False), (11, "ib-completion-other", "gpu017", False),
])
@pytest.mark.parametrize("form", ["old", "plain", "named", "device"])
def test_each_status_accuses_whom_it_means(status: int, id_: str, of: str, symptom: bool, form: str) -> None:
    (charge,) = told(using("gpu017", "10.20.0.17") + retry("gpu012", "10.20.0.17", form=form, status=status))
    assert (charge.meaning.id, charge.who.node, charge.symptom) == (id_, of, symptom)


@pytest.mark.parametrize("line", [
    "gpu011:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
    "gpu017<45678>",
    "gpu011:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgressOpt: Call to recv from 10.20.0.17<40123> "
    "failed : Connection reset by peer",
    "[W1121 10:00:00.1 TCPStore.cpp:115] [c10d] recvVector failed on SocketImpl(fd=3, addr=[gpu011]:47058, "
    "remote=[gpu017]:29500): Connection reset by peer",
    "[rank3]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[10.20.0.17]:31337",
])
def test_the_first_peer_that_was_lost_is_a_lead_where_nothing_else_is_known(line: str) -> None:
    first = culprit(using("gpu017", "10.20.0.17") + line)
    assert (first.who.node, first.sure) == ("gpu017", Sure.GUESS)


def test_who_waited_for_a_connection_is_not_accused() -> None:
    assert cause(
        "gpu011:1:2 [0] bootstrap.cc:512 NCCL WARN Timeout waiting for connection from rank 3\n") is None


def test_the_node_that_could_not_be_reached_for_the_rendezvous_is_accused() -> None:
    line = ("[rank{}]: torch.distributed.DistNetworkError: The client socket has timed out after 600000ms "
            "while trying to connect to (gpu001, 29500).\n")
    first = culprit("gpu012: " + line.format(1) + "gpu013: " + line.format(2), ("gpu001", "gpu012", "gpu013"))
    assert (first.who.node, first.meaning.id) == ("gpu001", "rendezvous")


def test_ucx_on_roce_names_the_peers_address() -> None:
    text = ("[1732182000.123456] [gpu011:12345:0]    ib_mlx5_log.c:179  UCX  ERROR Transport retry count "
            "exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)\n"
            "[1732182000.123460] [gpu011:12345:0]    ib_mlx5_log.c:179  UCX  ERROR RC QP 0x1f3 wqe[5]: SEND "
            "s-e [rqpn 0x1e1 dgid=::ffff:10.20.0.17]\n")
    first = culprit(text, (), {"10.20.0.17": "gpu017"})
    assert (first.who.node, first.time) == ("gpu017", 1732182000.123456)


@pytest.mark.parametrize("line", [
    "gpu011:1:2 [0] misc/socket.cc:524 NCCL WARN socketPollConnect: exceeded timeouts (20000)",
    "[gpu011:12345:0:12345] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend "
    "0x81 hw_synd 0/0)",
])
def test_a_peer_that_no_line_names_is_no_one_and_not_who_says_so(line: str) -> None:
    first = culprit(f"{line}\n", NODES)
    assert (first.who.label, first.sure, first.words) == ("", Sure.GUESS, "so says gpu011")


def test_an_address_that_several_ranks_lost_is_a_lead_where_no_line_tells_whose_it_is() -> None:
    said = "".join(f"[rank{rank}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
                   "Connection closed by peer [10.20.0.17]:31337\n" for rank in (0, 1))
    first = culprit(said)
    assert (first.who.address, first.sure) == ("10.20.0.17", Sure.GUESS)
