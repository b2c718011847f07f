"""Settings of the authorizer: another one is refused, and what has no effect is not accepted."""

import pytest

from logstore.config.authorizer_settings import STANDARD_AUTHORIZER, parse_super_users
from logstore.config.broker import BrokerSettings
from logstore.config.kinds import InvalidConfig

ON = {"authorizer.class.name": STANDARD_AUTHORIZER}


@pytest.mark.parametrize(
    "name", ["kafka.security.authorizer.AclAuthorizer", "StandardAuthorizer", "true"]
)
def test_another_authorizer_is_refused_with_the_name_to_write(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"write {STANDARD_AUTHORIZER}"):
        BrokerSettings({"authorizer.class.name": name})


def test_super_users_are_separated_by_semicolons_as_names_have_commas() -> None:
    users = parse_super_users(" User:admin; User:CN=ops,O=corp;Group:sre;; ")
    assert users == {"User:admin", "User:CN=ops,O=corp", "Group:sre"}
    assert parse_super_users("") == frozenset()


@pytest.mark.parametrize("text", ["admin", "User:", ":admin", "User:admin;bob"])
def test_a_super_user_that_is_no_principal_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="write User:NAME"):
        BrokerSettings({**ON, "super.users": text})


def test_super_users_without_an_authorizer_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"no effect without .*; add authorizer.class.name="):
        BrokerSettings({"super.users": "User:admin"})
    assert BrokerSettings({**ON, "super.users": "User:admin"}).text("super.users")
