"""SaslHandshake, versions 0 and 1: the mechanism by which the client logs in.

v1: the tokens come in SaslAuthenticate (KIP-152); after v0 they come bare. A listener that asks for
no login answers ILLEGAL_SASL_STATE, as Kafka does.
"""

from broker.answers.broker import Broker
from broker.network.call import Call
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SHOWN_MAX = 40


def sasl_handshake(
    broker: Broker, call: Call, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    login = call.connection.login
    if login is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
    code = login.choose(request.mechanism, call.version)
    if code:
        broker.refuse_login(call, f"mechanism={request.mechanism[:SHOWN_MAX]!r} error={code.name}")
    return SaslHandshakeResponse(code, login.shown_mechanisms)
