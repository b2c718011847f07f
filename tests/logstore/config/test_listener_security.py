"""Which protocol a listener speaks, by its name and the map."""

import pytest

from logstore.config.kinds import InvalidConfig
from logstore.config.listener_security import SecurityProtocol, protocol_of


@pytest.mark.parametrize(
    ("listener", "text", "protocol"),
    [
        ("PLAINTEXT", "", SecurityProtocol.PLAINTEXT),
        ("SASL_SSL", "", SecurityProtocol.SASL_SSL),
        ("OFFICE", "", SecurityProtocol.PLAINTEXT),
        ("OFFICE", "office:ssl, SSL:PLAINTEXT", SecurityProtocol.SSL),
        ("SSL", "office:ssl, SSL:PLAINTEXT", SecurityProtocol.PLAINTEXT),
    ],
)
def test_a_listener_speaks_what_the_map_says_else_its_name(
    listener: str, text: str, protocol: SecurityProtocol
) -> None:
    assert protocol_of(listener, text) is protocol


@pytest.mark.parametrize("text", ["OFFICE", "OFFICE:TLS", ":SSL", "A:SSL,a:PLAINTEXT", "B:SSL"])
def test_a_map_that_makes_no_sense_or_lacks_the_listener_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"listener\.security\.protocol\.map"):
        protocol_of("OFFICE", text)
