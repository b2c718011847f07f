"""Settings of logins, and of the protocol that a listener speaks. Pure."""

from logstore.config.kinds import Setting, SettingKind
from logstore.config.listener_security import PROTOCOL_MAP

FAILED_DELAY_MS = "connection.failed.authentication.delay.ms"
REAUTH_MS = "connections.max.reauth.ms"
SASL_MECHANISMS = "sasl.enabled.mechanisms"
RECEIVE_BYTES_MAX = "sasl.server.max.receive.size"

LOGIN_SETTINGS = (
    Setting(
        name=FAILED_DELAY_MS,
        kind=SettingKind.INT,
        default="100",
        documentation="How long after a login that failed its connection ends. Higher: passwords "
        "are guessed more slowly.",
        at_least=0,
        at_most=10_000,
    ),
    Setting(
        name=REAUTH_MS,
        kind=SettingKind.LONG,
        default="0",
        documentation="Time after which a client that logged in by SASL has to do so again, on "
        "the same connection; a connection whose client does not ends at its next request. 0: "
        "never.",
        at_least=0,
    ),
    Setting(
        name=PROTOCOL_MAP,
        kind=SettingKind.STRING,
        default="",
        documentation="Protocol of each listener by its name, LISTENER:PROTOCOL with commas "
        "between: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Default: the protocol of the "
        "listener's name, of other names PLAINTEXT.",
    ),
    Setting(
        name=SASL_MECHANISMS,
        kind=SettingKind.LIST,
        default="SCRAM-SHA-512,SCRAM-SHA-256",
        documentation="Mechanisms by which clients of SASL listeners may log in. Kafka's default "
        "is GSSAPI, which is not supported.",
        one_of=("SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    Setting(
        name=RECEIVE_BYTES_MAX,
        kind=SettingKind.INT,
        default="65536",
        documentation="Maximum size of a request before its client is logged in; a larger one "
        "ends the connection.",
        at_least=1024,
    ),
)
