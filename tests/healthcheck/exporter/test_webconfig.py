"""web.yml in the format of Prometheus' exporters: what is taken, what is refused in a line, and that no line
holds a secret."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.exporter.webconfig import WebConfig, load_web_config
from inventory.errors import ConfigError

HASH = "$2y$10$mDwo.lAisC94iLAyP81MCesa29IzH37oigHC/42V2pdJlUprsJPze"
TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: /etc/server.key\n"
CLIENTS = TLS + "  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
SUITES = "  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256]\n"


def loaded(folder: Path, text: str) -> WebConfig:
    """What a file with this text asks for."""
    (folder / "web.yml").write_text(text)
    return load_web_config(folder / "web.yml")


def test_the_sample_of_the_exporter_toolkit_is_read_and_its_files_are_beside_it(tmp_path: Path) -> None:
    found = loaded(tmp_path, TLS + f"basic_auth_users:\n  alice: {HASH}\n  'bob smith': {HASH}\n")
    assert found.tls is not None and found.users == {"alice": HASH, "bob smith": HASH}
    assert found.tls.files == (tmp_path / "server.crt", Path("/etc/server.key"))
    assert (found.tls.least, found.tls.most) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_every_key_that_is_supported_has_its_meaning(tmp_path: Path) -> None:
    found = loaded(tmp_path, CLIENTS + SUITES + "  min_version: TLS12\n  max_version: TLS12\n"
                   "  prefer_server_cipher_suites: false\n  client_allowed_sans: [prometheus, '::1']\n"
                   "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n"
                   "    Strict-Transport-Security: max-age=60\n    X-XSS-Protection: 0\n"
                   "    Content-Security-Policy: ''\n")
    assert found.tls is not None and found.tls.clients == tmp_path / "ca.crt" and found.tls.required
    assert found.tls.most is ssl.TLSVersion.TLSv1_2 and not found.tls.ours_first
    assert found.tls.ciphers == "ECDHE-RSA-AES256-GCM-SHA384"
    assert found.headers == {"X-Frame-Options": "deny", "X-XSS-Protection": "0",
                             "Strict-Transport-Security": "max-age=60"}
    names = {"subjectAltName": (("DNS", "x"), ("IP Address", "0:0:0:0:0:0:0:1"))}
    assert found.tls.accepts(names) and not found.tls.accepts({"subjectAltName": (("DNS", "other"),)})
    assert not found.tls.accepts({})


def test_with_suites_of_tls_1_3_alone_no_older_version_is_spoken(tmp_path: Path) -> None:
    found = loaded(tmp_path, TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n")
    assert found.tls is not None and found.tls.least is ssl.TLSVersion.TLSv1_3


def test_certificate_and_key_may_stand_in_the_file(tmp_path: Path) -> None:
    found = loaded(tmp_path, "tls_server_config:\n  cert: |\n    PEM\n  key: |\n    KEY\n")
    assert found.tls is not None and (found.tls.certificate, found.tls.key) == ("PEM\n", "KEY\n")
    assert found.tls.files == ()


@pytest.mark.parametrize("text", ["basic_auth_users:\n", "basic_auth_users: {}\n",
                                  "http_server_config: {headers: {}}\n"])
def test_what_is_left_empty_asks_for_nothing(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text) == WebConfig()


@pytest.mark.parametrize(("text", "line", "said"), [
    (TLS + "tls_server: {}\n", 4, "unknown key 'tls_server'"),
    ("basic_auth_users: {}\nbasic_auth_excluded_paths: [/x]\n", 2, "unknown key 'basic_auth_excluded_paths'"),
    ("rate_limit: {interval: 1s, burst: 5}\n", 1, "rate_limit: is not supported"),
    (TLS + "  certfile: x\n", 4, "did you mean 'cert_file'?"),
    ("tls_server_config: {}\n", 1, "needs cert_file"),
    ("tls_server_config:\n  cert_file: x\n", 2, "needs key_file"),
    ("tls_server_config:\n  cert_file: [x]\n  key_file: x\n", 2, "cert_file: expected text, got a list"),
    (TLS + "  cert: x\n", 4, "give one of them"),
    (TLS + "  curve_preferences: [X25519]\n", 4, "curve_preferences: is not supported"),
    (TLS + "  client_ca_file: ca\n", 2, "needs client_auth_type"),
    (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", 4, "needs client_ca_file"),
    (TLS + "  client_auth_type: RequireAnyClientCert\n", 4, "verifies no certificate"),
    (TLS + "  client_auth_type: RequireAndVerifyClientCerts\n", 4,
     "did you mean 'RequireAndVerifyClientCert'?"),
    (TLS + "  client_allowed_sans: [x]\n", 4, "needs client_auth_type: RequireAndVerifyClientCert"),
    (CLIENTS + "  client_allowed_sans: []\n", 6, "a list with a name in it"),
    (TLS + "  min_version: TLS11\n", 4, "TLS11 is not supported"),
    (TLS + "  min_version: TLS1.2\n", 4, "expected TLS12 or TLS13"),
    (TLS + "  min_version: TLS13\n  max_version: TLS12\n", 4, "is above max_version"),
    (TLS + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n", 4, "unknown suite 'TLS_RSA_WITH_RC4_128_SHA'"),
    (TLS + "  prefer_server_cipher_suites: 'yes'\n", 4, "expected true or false"),
    ("http_server_config: {http2: true}\n", 1, "http2: true is not supported"),
    ("http_server_config:\n  headers:\n    X-Powered-By: x\n", 3, "unknown key 'X-Powered-By'"),
    ("http_server_config:\n  headers:\n    X-Frame-Options: allow\n", 3, "expected deny or sameorigin"),
    ("http_server_config:\n  headers:\n    Content-Security-Policy: \"a\\r\\nSet-Cookie: b\"\n",
     3, "one line"),
    (f"basic_auth_users:\n  a:b: {HASH}\n", 2, "has a colon"),
    (f"basic_auth_users:\n  bob: {HASH.replace('$10$', '$17$')}\n", 2, "the hash's cost is 17"),
    ("- a\n", 1, "expected a map"), ("a: [\n", 2, "expected"),
    (f"basic_auth_users: {{bob: {HASH}}}\nbasic_auth_users: {{}}\n", 2, "duplicate key"),
])
def test_what_cannot_be_is_refused_with_file_and_line(tmp_path: Path, text: str, line: int,
                                                      said: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'web.yml'}:{line}:") and said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [
    "basic_auth_users:\n  bob: s3cret\n", "basic_auth_users:\n  bob: [s3cret]\n",
    "basic_auth_users: bob s3cret\n", "basic_auth_users:\n  - s3cret\n", "'bob s3cret'\n",
    "tls_server_config:\n  cert: x\n  key: {s3cret: x}\n", "basic_auth_users:\n  bob: $2y$10$s3cret\n",
])
def test_no_message_holds_a_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text)
    assert "s3cret" not in str(error.value)


def test_a_file_that_is_missing_or_empty_is_no_permission_to_serve_everyone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_web_config(tmp_path / "none.yml")
    with pytest.raises(ConfigError, match="is empty"):
        loaded(tmp_path, "# nothing\n")


LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9), st.just(HASH))
KEYS = st.sampled_from(["tls_server_config", "http_server_config", "basic_auth_users",
                        "cert_file", "key_file",
                        "headers", "http2", "cipher_suites", "min_version", "client_ca", "x"])


@given(st.recursive(LEAF, lambda inner: st.one_of(st.lists(inner, max_size=3),
                                                  st.dictionaries(KEYS, inner, max_size=4)), max_leaves=9))
def test_whatever_a_file_holds_is_settings_or_one_line(tmp_path_factory: pytest.TempPathFactory,
                                                       what: object) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        assert isinstance(loaded(folder, json.dumps(what)), WebConfig)
    except ConfigError as error:
        assert "\n" not in str(error)
