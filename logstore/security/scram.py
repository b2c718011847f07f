"""SCRAM (RFC 5802, RFC 7677): verifiers of passwords, and both sides of the exchange. Pure.

    client                                        server
    n,,n=alice,r=<nonce>                     ──▶
                                             ◀──  r=<nonce><more>,s=<salt>,i=<iterations>
    c=biws,r=<nonce><more>,p=<proof>         ──▶
                                             ◀──  v=<signature>

A server keeps no password, but what it takes to check a proof. Nonces are given: chance is the
caller's. Passwords are taken as they are, in UTF-8, as Kafka's brokers do, without SASLprep.

Sources: RFC 5802 §5 and §7; Kafka's `ScramFormatter`, `ScramSaslServer`.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import Invalid

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES: Mapping[str, str] = {SHA_256: "sha256", SHA_512: "sha512"}
"""Names of hash functions by mechanism."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
MESSAGE_BYTES_MAX = 4096
_NO_BINDING = "biws"
"""`n,,` in base64: what a client without channel binding repeats."""

_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>(?:[^,=]|=2C|=3D)+))?,)"
    r"(?P<bare>n=(?P<name>(?:[^,=]|=2C|=3D)+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<more>(?:,.*)?))"
)
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/]+={0,2}),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)
_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[^p].*?)?)"
    r",p=(?P<proof>[A-Za-z0-9+/]+={0,2})"
)
_SERVER_FINAL = re.compile(r"v=(?P<signature>[A-Za-z0-9+/]+={0,2})(?:,.*)?")


class LoginFailed(Invalid):
    """The peer did not prove who it is, or its message is none. The text names no secret."""


class Verifier(NamedTuple):
    """Kept by a server of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Verifier(iterations={self.iterations})"


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2: some 4 ms for each 4,096 iterations. Not on an event loop."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def verifier_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Verifier:
    """`salted` as `salted_password` returns it; Kafka's clients send it, and never the password."""
    stored_key = _hash(mechanism, _mac(mechanism, salted, b"Client Key"))
    return Verifier(salt, stored_key, _mac(mechanism, salted, b"Server Key"), iterations)


class FirstMessage(NamedTuple):
    """Of a client, taken apart."""

    name: str
    nonce: str
    gs2: str
    bare: str


def parse_first(data: bytes) -> FirstMessage:
    """Raises `LoginFailed`."""
    found = _FIRST.fullmatch(_text(data))
    if found is None:
        raise LoginFailed("not a first SCRAM message")
    name, authzid = _unescape(found["name"]), found["authzid"]
    if authzid is not None and _unescape(authzid) != name:
        raise LoginFailed("a client may not log in as one user to act as another")
    return FirstMessage(name, found["nonce"], found["gs2"], found["bare"])


class ServerExchange:
    """After a client's first message: one challenge, one proof.

    Several verifiers, which have the same salt and iterations, are several passwords that count.
    """

    def __init__(
        self, mechanism: str, first: FirstMessage, verifiers: Sequence[Verifier], more_nonce: str
    ) -> None:
        """`more_nonce` is another one for each exchange."""
        self._mechanism = mechanism
        self._verifiers = verifiers
        self._gs2 = first.gs2
        self._nonce = first.nonce + more_nonce
        salt = base64.b64encode(verifiers[0].salt).decode()
        self.challenge = f"r={self._nonce},s={salt},i={verifiers[0].iterations}"
        self._before_final = f"{first.bare},{self.challenge}"

    def check(self, data: bytes) -> bytes:
        """Returns the server's last message. Raises `LoginFailed`."""
        found = _FINAL.fullmatch(_text(data))
        if found is None:
            raise LoginFailed("not a final SCRAM message")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise LoginFailed("the nonce is not the one of this exchange")
        if _decoded(found["binding"]) != self._gs2.encode():
            raise LoginFailed("the channel binding is not the one of the first message")
        proof = _decoded(found["proof"])
        message = f"{self._before_final},{found['bare']}".encode()
        for one in self._verifiers:
            signature = _mac(self._mechanism, one.stored_key, message)
            if len(proof) != len(signature):
                break
            key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
            if hmac.compare_digest(_hash(self._mechanism, key), one.stored_key):
                answer = _mac(self._mechanism, one.server_key, message)
                return b"v=" + base64.b64encode(answer)
        raise LoginFailed("the proof is not that of the password")


@dataclass
class ClientExchange:
    """A client's side: `first`, then `prove` the server's challenge, then `check` its signature."""

    mechanism: str
    name: str
    password: str
    nonce: str

    def __repr__(self) -> str:
        return f"ClientExchange({self.mechanism}, {self.name})"

    @property
    def _bare(self) -> str:
        return f"n={escape(self.name)},r={self.nonce}"

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def prove(self, data: bytes) -> bytes:
        """Raises `LoginFailed`, also for iterations that would keep this client busy."""
        text = _text(data)
        found = _SERVER_FIRST.fullmatch(text)
        if found is None or not found["nonce"].startswith(self.nonce):
            raise LoginFailed("the server's challenge is none")
        iterations = int(found["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise LoginFailed(f"the server asks for a strange number of iterations: {iterations}")
        if found["nonce"] == self.nonce:
            raise LoginFailed("the server has added nothing to the nonce")
        mechanism, salt = self.mechanism, _decoded(found["salt"])
        salted = salted_password(mechanism, self.password, salt, iterations)
        bare = f"c={_NO_BINDING},r={found['nonce']}"
        message = f"{self._bare},{text},{bare}".encode()
        client_key = _mac(mechanism, salted, b"Client Key")
        signature = _mac(mechanism, _hash(mechanism, client_key), message)
        server_key = _mac(mechanism, salted, b"Server Key")
        self._expected = _mac(mechanism, server_key, message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, data: bytes) -> None:
        """Raises `LoginFailed` unless the server knows the password's verifier."""
        found = _SERVER_FINAL.fullmatch(_text(data))
        if found is None or not hmac.compare_digest(_decoded(found["signature"]), self._expected):
            raise LoginFailed("the server has not proved that it knows this user")


def escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(data: bytes) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise LoginFailed(f"a SCRAM message of {len(data)} bytes; at most {MESSAGE_BYTES_MAX}")
    try:
        return data.decode()
    except ValueError:
        raise LoginFailed("a SCRAM message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginFailed("not base64 in a SCRAM message") from None


def _mac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _hash(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()
