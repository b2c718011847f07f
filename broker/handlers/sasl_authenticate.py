"""SaslAuthenticate, versions 0 to 2: one token of a login, and the answer to it.

v1 says for how long the client is logged in (KIP-368). A login that fails is answered, and its
connection ends a little later (`connection.failed.authentication.delay.ms`): all reasons that a
client can meet by guessing have one text.
"""

from broker.answers.broker import Broker
from broker.network.call import Call
from logstore.security.scram import LoginFailed
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

UNEXPECTED = "SaslAuthenticate request received after successful authentication"
FAILED = "Authentication failed during authentication due to invalid credentials with SASL"
"""Both are Kafka's own words, by which people find what to do."""


def sasl_authenticate(
    broker: Broker, call: Call, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    connection = call.connection
    login = connection.login
    if login is None or not login.awaits_token:
        if login is not None and not login.principal:
            broker.refuse_login(call, "a token without a handshake")
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, UNEXPECTED)
    try:
        answer = login.take(bytes(request.auth_bytes))
    except LoginFailed as failure:
        broker.refuse_login(call, str(failure))
        broker.logins.audit(connection, str(failure))
        why = f"{FAILED} mechanism {login.mechanism}"
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
    if answer.is_done:
        connection.principal = login.principal
        broker.logins.audit(connection)
        connection.admitted()
    return SaslAuthenticateResponse(
        auth_bytes=answer.data, session_lifetime_ms=login.session_ms if answer.is_done else 0
    )
