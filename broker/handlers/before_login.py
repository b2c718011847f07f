"""Before the login only what belongs to it is taken, and no large frame.

After SaslHandshake 0 frames are tokens, without a header, and so are answers (KIP-43); a login that
fails then has no answer, as in Kafka.
"""

from broker.answers.broker import Broker
from broker.network.call import Call
from broker.network.connection import ClientConnection
from broker.network.login_state import LoginState
from logstore.config.login_settings import RECEIVE_BYTES_MAX
from logstore.errors import Invalid
from logstore.security.scram import LoginFailed
from logstore.wire.framing.apis import APIS

SASL_AUTHENTICATE_KEY = 36


def takes_token(
    broker: Broker, connection: ClientConnection, login: LoginState, frame: memoryview
) -> bool:
    """Whether this frame was a bare token, which is answered now.

    Raises `Invalid` for a request that comes before the login, or after its session.
    """
    if not login.principal and len(frame) > broker.settings.number(RECEIVE_BYTES_MAX):
        raise Invalid(f"a frame before the login is too large: bytes={len(frame)}")
    if not login.takes_tokens:
        why = login.refusal(int.from_bytes(frame[:2], "big"))
        if why is not None:
            raise Invalid(why)
        return False
    call = Call(connection, APIS[SASL_AUTHENTICATE_KEY], 0, 0, None)
    connection.begin(call)
    try:
        answer = login.take(bytes(frame))
    except LoginFailed as failure:
        broker.logins.audit(connection, str(failure))
        call.fail(f"login failed: {failure}")
        return True
    if answer.is_done:
        connection.principal = login.principal
        broker.logins.audit(connection)
        connection.admitted()
    call.answer_bytes([len(answer.data).to_bytes(4, "big") + answer.data])
    return True
