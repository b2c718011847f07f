"""Settings of what a peer may do before any login. Pure."""

from logstore.config.kinds import Setting, SettingKind

DOOR_SETTINGS = (
    Setting(
        name="logstore.allow.anonymous",
        kind=SettingKind.BOOLEAN,
        default="false",
        documentation="Whether a broker starts with a listener that other machines reach and that "
        "asks for no login: neither SASL, nor a certificate of its clients. true: it warns each "
        "minute; the network must keep strangers away, who may do everything.",
    ),
    Setting(
        name="logstore.http.hosts",
        kind=SettingKind.STRING,
        default="",
        documentation="Names, with commas between, by which clients may ask for metrics and the "
        "console. Addresses, localhost and the host of --http always count, and the two probes "
        "need none. Any other name is refused: a page of another site could read them through a "
        "browser by pointing its own name here.",
    ),
    Setting(
        name="logstore.first.request.max.ms",
        kind=SettingKind.INT,
        default="10000",
        documentation="How long a new connection may send no whole request before it is closed; "
        "after its first request it may be idle for connections.max.idle.ms. A large first request "
        "that arrives has more time. Lower: silent peers hold places for a shorter time.",
        at_least=100,
    ),
)
