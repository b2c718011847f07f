"""Which authorizer a broker has, and whom it asks about nothing. Pure.

authorizer.class.name    org.apache.kafka.metadata.authorizer.StandardAuthorizer, or nothing
super.users              User:admin;User:CN=ops,O=corp      separated by semicolons, as in Kafka
"""

from collections.abc import Callable

from logstore.config.kinds import InvalidConfig, Setting, SettingKind

AUTHORIZER = "authorizer.class.name"
SUPER_USERS = "super.users"
OPEN_WITHOUT_ACL = "allow.everyone.if.no.acl.found"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_SEPARATOR = ";"

AUTHORIZER_SETTINGS = (
    Setting(
        name=AUTHORIZER,
        kind=SettingKind.STRING,
        default="",
        documentation="Authorizer that brokers ask what a client may do: by ACLs with "
        f"{STANDARD_AUTHORIZER}, which is Kafka's name. Nothing: every client may do everything. "
        "All brokers of a cluster need the same value.",
    ),
    Setting(
        name=SUPER_USERS,
        kind=SettingKind.STRING,
        default="",
        documentation="Principals that may do everything, whatever ACLs say, separated by "
        "semicolons: User:admin;User:CN=ops,O=corp. Group:NAME names all clients of a group. "
        "Needed to make the first ACLs.",
    ),
    Setting(
        name=OPEN_WITHOUT_ACL,
        kind=SettingKind.BOOLEAN,
        default="false",
        documentation="Whether every client may do everything with a resource for which there is "
        "no ACL at all, and not nothing. true: a new topic is open until it has its first ACL.",
    ),
)


def parse_super_users(text: str) -> frozenset[str]:
    """Returns principals, such as `User:admin` and `Group:ops`. Raises `InvalidConfig`."""
    users = frozenset(one.strip() for one in text.split(_SEPARATOR) if one.strip())
    for user in users:
        kind, separator, name = user.partition(":")
        if not (kind and separator and name):
            raise InvalidConfig(
                f"invalid value {text!r} for configuration {SUPER_USERS}: {user!r} is no "
                "principal; write User:NAME or Group:NAME, separated by semicolons"
            )
    return users


def check_authorizer(text_of: Callable[[str], str]) -> None:
    """Raises `InvalidConfig` for settings that do not go together."""
    name = text_of(AUTHORIZER).strip()
    if name and name != STANDARD_AUTHORIZER:
        raise InvalidConfig(
            f"invalid value {name!r} for configuration {AUTHORIZER}: there is one authorizer; "
            f"write {STANDARD_AUTHORIZER}, or leave it out: every client may do everything then"
        )
    if parse_super_users(text_of(SUPER_USERS)) and not name:
        raise InvalidConfig(
            f"{SUPER_USERS} has no effect without an authorizer; "
            f"add {AUTHORIZER}={STANDARD_AUTHORIZER}"
        )
