"""MAAS's API key and the header it signs: OAuth 1.0a, PLAINTEXT (RFC 5849, 3.4.4). The key is
`consumer:token:secret`; the consumer has no secret, so that the signature is `&secret`
(https://maas.io/docs/api-authentication-reference). It is a credential in every request: it leaves this
module only in the header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from provisioning.bmc.credentials import Hidden
from provisioning.osinstall.base import OsError


@dataclass(frozen=True)
class MaasKey:
    """An API key in its parts, none of which shows itself."""

    consumer: Hidden
    token: Hidden
    secret: Hidden

    @property
    def unreported(self) -> tuple[Hidden, ...]:
        """What must be in no message, longest first: the parts, and as a header spells them."""
        parts = (self.secret, self.token, self.consumer)
        spelt = (Hidden(_quoted(_quoted(part.text))) for part in parts)
        return (*(Hidden(_quoted(part.text)) for part in parts), *spelt, *parts)


def api_key(text: Hidden) -> MaasKey:
    """The parts of a key. Raises OsError, which does not show it."""
    parts = text.text.strip().split(":")
    if len(parts) != 3 or not all(parts) or not text.text.isascii():
        raise OsError("the API key of MAAS is not in the form consumer:token:secret; MAAS shows it under "
                      "API keys of your account, and so does: sudo maas apikey --username NAME")
    return MaasKey(*map(Hidden, parts))


def authorization(key: MaasKey, nonce: str, timestamp: int) -> str:
    """The value of the header Authorization; `timestamp` is in epoch seconds, `nonce` is new each time."""
    parameters: Mapping[str, str] = {
        "oauth_consumer_key": key.consumer.text, "oauth_token": key.token.text,
        "oauth_signature_method": "PLAINTEXT", "oauth_signature": f"&{_quoted(key.secret.text)}",
        "oauth_timestamp": str(timestamp), "oauth_nonce": nonce, "oauth_version": "1.0"}
    said = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items())
    return f"OAuth {said}"


def _quoted(text: str) -> str:
    return quote(text, safe="-._~")
