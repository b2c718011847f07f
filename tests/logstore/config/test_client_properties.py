"""Kafka's file of client settings: its lines, what is refused, and that no secret is shown."""

import pytest

from logstore.config.client_properties import parse_client_properties
from logstore.config.kinds import InvalidConfig
from logstore.config.listener_security import SecurityProtocol

LOGIN = """
# how it is secured
security.protocol = SASL_SSL
ssl.truststore.location:/etc/ca.pem
acks=all
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" password="op\\\\"en; \\\\\\\\ sesame";
"""


def test_lines_are_those_of_java() -> None:
    given = parse_client_properties(LOGIN)
    assert given.protocol is SecurityProtocol.SASL_SSL
    assert given.text("ssl.truststore.location") == "/etc/ca.pem"
    assert given.text("ssl.truststore.type") == "PEM"
    assert (given.mechanism, given.user) == ("SCRAM-SHA-512", "alice")
    assert given.password == 'op"en; \\ sesame'
    assert given.checks_name
    assert "sesame" not in repr(given)


def test_nothing_is_plain() -> None:
    given = parse_client_properties("bootstrap.servers=x\n")
    assert given.protocol is SecurityProtocol.PLAINTEXT
    assert not given.mechanism


def test_an_empty_algorithm_checks_no_name() -> None:
    text = "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
    assert not parse_client_properties(text).checks_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("security.protocol=TLS", "not one of PLAINTEXT"),
        ("ssl.trustore.location=x", r"did you mean ssl\.truststore\.location"),
        ("ssl.truststore.type=JKS", "keytool"),
        ("security.protocol=SASL_SSL", "GSSAPI"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256", r"sasl\.jaas\.config"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidConfig, match=expected):
        parse_client_properties(text)
