"""Users with passwords: who is served, what that costs, and that a changed file counts at once."""

from __future__ import annotations

import asyncio
import base64
import http.client
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
import pytest

from healthcheck.exporter.logins import UserLogins
from healthcheck.exporter.server import Server
from healthcheck.exporter.webfile import WebFile
from inventory.errors import UsageError
from tests.healthcheck.exporter.certificates import certificate
from tests.healthcheck.exporter.test_server import get, serving


def hashed(password: str, cost: int = 4) -> str:
    """As htpasswd makes it."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode().replace("$2b$", "$2y$")


def basic(user: str, password: str) -> str:
    """A client's header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def users(folder: Path, cost: int = 4, **passwords: str) -> Path:
    """A web.yml with these users."""
    path = folder / "web.yml"
    (folder / "next").write_text("basic_auth_users:\n" + "".join(
        f"  {user}: {hashed(password, cost)}\n" for user, password in passwords.items()))
    (folder / "next").replace(path)
    return path


def status(server: Server, user: str, password: str, path: str = "/metrics") -> int:
    return get(server, path, Authorization=basic(user, password))[0]


def test_only_a_user_with_his_password_is_served_on_every_path(tmp_path: Path) -> None:
    with serving(security=WebFile(users(tmp_path, alice="a:b ü", bob="b"))) as server:
        assert status(server, "alice", "a:b ü") == status(server, "bob", "b") == 200
        for path in ("/metrics", "/", "/healthz", "/readyz", "/sd", "/nope"):
            code, headers, body = get(server, path)
            assert ((code, body) == (401, b"Unauthorized\n")
                    and headers["www-authenticate"].startswith("Basic realm="))
        assert [status(server, *login) for login in (
            ("alice", "b"), ("bob", "a:b ü"), ("", ""), ("eve", "b"), ("alice", ""), ("ALICE", "a:b ü"),
            ("alice", "a:b ü\0"), ("bob", "b" * 5000))] == [401] * 8


@pytest.mark.parametrize("said", ["", "Basic", "Basic !!!", "Basic YWxpY2U=", "Bearer YWxpY2U6YQ==",
                                  "Basic " + "A" * 9999,
                                  "Digest username=alice", "Basic YWxpY2U6YQ==, Basic YWxpY2U6YQ=="])
def test_what_is_no_login_costs_no_hash(tmp_path: Path, said: str) -> None:
    security = WebFile(users(tmp_path, alice="a"))
    with serving(security=security) as server:
        assert get(server, "/metrics", Authorization=said)[0] == 401
    assert security._logins.computed == 0


def test_a_login_is_computed_once_right_or_wrong_and_none_is_kept_in_the_clear(tmp_path: Path) -> None:
    security = WebFile(users(tmp_path, alice="s3cret"))
    with serving(security=security) as server:
        assert [status(server, "alice", "s3cret") for _ in range(5)] == [200] * 5
        assert security._logins.computed == 1
        assert [status(server, "alice", "wr0ng") for _ in range(5)] == [401] * 5
        assert security._logins.computed == 2
    held = repr(vars(security._logins))
    assert "s3cret" not in held and "wr0ng" not in held


def test_a_user_who_is_unknown_costs_the_same_hash_as_one_who_is_known() -> None:
    asked: list[bytes] = []

    async def ask(logins: UserLogins) -> None:
        for user in ("alice", "eve", "mallory"):
            assert await logins.right(basic(user, "wrong"), {"alice": hashed("a"), "bob": hashed("b", 5)},
                                      "peer") is False

    def checkpw(password: bytes, against: bytes) -> bool:
        asked.append(against)
        # an unknown user is none whatever comes out
        return True if len(asked) > 1 else REAL(password, against)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bcrypt, "checkpw", checkpw)
        asyncio.run(ask(UserLogins()))
    assert [one[4:6] for one in asked] == [b"04", b"05", b"05"]


REAL = bcrypt.checkpw


def test_a_flood_of_wrong_logins_blocks_no_scrape_of_the_same_address(tmp_path: Path) -> None:
    security = WebFile(users(tmp_path, 6, alice="a", bob="b"))
    with serving(security=security) as server, ThreadPoolExecutor(40) as pool:
        assert status(server, "alice", "a") == 200
        flood = [pool.submit(status, server, "alice", f"wrong{number}") for number in range(120)]
        assert [status(server, "alice", "a") for _ in range(50)] == [200] * 50
        assert status(server, "bob", "b") == 200        # whose hash is not known yet: newest first
        found = {one.result() for one in flood}
        assert found <= {401, 429} and 401 in found
        assert status(server, "alice", "a") == 200


def test_logins_of_each_address_take_turns_and_the_oldest_of_too_many_is_refused() -> None:
    order: list[bytes] = []

    async def ask() -> list[bool | None]:
        logins = UserLogins()
        known = {"u": hashed("right")}

        def checkpw(password: bytes, against: bytes) -> bool:
            order.append(password)
            return REAL(password, against)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bcrypt, "checkpw", checkpw)
            return await asyncio.gather(
                *(logins.right(basic("u", f"w{number}"), known, "flood") for number in range(30)),
                logins.right(basic("u", "right"), known, "prometheus"))

    found = asyncio.run(ask())
    assert found[-1] is True and order.index(b"right") <= 3
    # 2 at work and 16 waiting are not too many
    assert found[:-1].count(None) == 12 and found[:2] == [False, False]


def test_a_changed_file_counts_at_once_and_a_broken_one_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    path = users(tmp_path, alice="old")
    with serving(security=WebFile(path)) as server:
        assert status(server, "alice", "old") == 200
        users(tmp_path, alice="new")
        assert (status(server, "alice", "old"), status(server, "alice", "new")) == (401, 200)
        for text in ("", "basic_auth_users: [",
                     f"tls_server_config: {{cert_file: {tmp_path}/x, key_file: x}}\n"):
            path.write_text(text)
            assert [status(server, "alice", "new") for _ in range(3)] == [200] * 3
            assert get(server, "/metrics")[0] == 401
            error = capsys.readouterr().err
            assert error.count("\n") == 1 and str(path) in error and "going on with the one before" in error
        path.unlink()
        assert status(server, "alice", "new") == 200 and "no such file" in capsys.readouterr().err
        users(tmp_path, bob="b")
        assert (status(server, "bob", "b"), status(server, "alice", "new")) == (200, 401)
        assert capsys.readouterr().err == ""


def asked(server: Server, trusted: Path, mine: tuple[Path, Path] | None = None,
          **headers: str) -> http.client.HTTPResponse:
    context = ssl.create_default_context(cafile=str(trusted))
    if mine is not None:
        context.load_cert_chain(*mine)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
    connection.request("GET", "/metrics", headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


REFUSED = (ssl.SSLError, ConnectionError, http.client.HTTPException)


def test_tls_users_headers_and_client_certificates_go_together_as_the_file_says(tmp_path: Path) -> None:
    pair, client, other = (certificate(tmp_path, name) for name in ("server", "prometheus", "other"))
    (tmp_path / "ca.pem").write_bytes(client[0].read_bytes() + other[0].read_bytes())
    (tmp_path / "web.yml").write_text(
        "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n  client_ca_file: ca.pem\n"
        "  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: [prometheus]\n"
        "  min_version: TLS12\n  max_version: TLS12\n  cipher_suites: "
        "[TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n"
        "http_server_config: {headers: {X-Frame-Options: deny}}\n"
        f"basic_auth_users: {{alice: {hashed('a')}}}\n")
    with serving(security=WebFile(tmp_path / "web.yml")) as server:
        answer = asked(server, pair[0], client, Authorization=basic("alice", "a"))
        assert (answer.status, answer.headers["X-Frame-Options"]) == (200, "deny")
        assert asked(server, pair[0], client).status == 401
        for mine in (None, other):
            with pytest.raises(REFUSED):
                asked(server, pair[0], mine, Authorization=basic("alice", "a"))
        new = certificate(tmp_path, "server")       # renewed
        assert asked(server, new[0], client).status == 401


def test_a_certificate_in_the_file_itself_is_served_and_turning_tls_off_needs_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    pair = certificate(tmp_path, "server")
    text = "tls_server_config:\n" + "".join(
        f"  {key}: |\n" + "".join(f"    {line}\n" for line in path.read_text().splitlines())
        for key, path in zip(("cert", "key"), pair, strict=True))
    (tmp_path / "web.yml").write_text(text)
    with serving(security=WebFile(tmp_path / "web.yml")) as server:
        assert asked(server, pair[0]).status == 200
        (tmp_path / "web.yml").write_text("basic_auth_users: {}\n")
        assert asked(server, pair[0]).status == 200 and "turns TLS off" in capsys.readouterr().err
    assert not [name for name in os.listdir("/proc/self/fd")        # noqa: PTH208  (not a real folder)
                if "memfd:pem" in _link(name)]


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")     # noqa: PTH115
    except OSError:
        return ""


def test_files_that_are_no_certificates_are_named_in_a_line(tmp_path: Path) -> None:
    pair = certificate(tmp_path, "server")
    tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
    (tmp_path / "ca.pem").write_text("")
    (tmp_path
     / "web.yml").write_text(tls + "  client_ca_file: ca.pem\n  client_auth_type: VerifyClientCertIfGiven\n")
    with pytest.raises(UsageError, match=r"web\.yml: tls_server_config: .*ca\.pem: is no certificate"):
        WebFile(tmp_path / "web.yml")
    pair[1].write_text("")
    (tmp_path / "web.yml").write_text(tls)
    with pytest.raises(UsageError, match="are not a certificate and its key"):
        WebFile(tmp_path / "web.yml")
