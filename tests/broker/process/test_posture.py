"""A listener that other machines reach asks for a login, or its operator says that it need not."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.network.listeners import ListenAddress, parse_address
from broker.process.life import FAILED
from broker.process.posture import check_posture, open_listeners
from broker.process.posture_warning import EVERY_S, PostureWarning
from broker.process.serve import ServeSettings, serve
from logstore.config.broker import BrokerSettings
from logstore.errors import Refused
from logstore.testing.virtual_loop import VirtualClock, run

ALLOWED = {"logstore.allow.anonymous": "true"}


def refused(listen: str, settings: Mapping[str, str]) -> str:
    """Why a broker with this listener does not start; empty: it does."""
    try:
        check_posture([parse_address(listen)], BrokerSettings(settings))
    except Refused as error:
        return str(error)
    return ""


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "[::1]:1", "localhost:1", ":1", "127.0.0.9:1"])
def test_on_loopback_no_login_is_needed(listen: str) -> None:
    assert not refused(listen, {})


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "broker.example:1", "SSL://0.0.0.0:1"]
)
def test_beyond_loopback_a_listener_without_a_login_is_refused(listen: str) -> None:
    assert "logstore.allow.anonymous" in refused(listen, {})
    assert not refused(listen, ALLOWED)
    assert open_listeners([parse_address(listen)], BrokerSettings(ALLOWED))


def test_a_login_or_the_certificate_of_each_client_closes_a_listener() -> None:
    for name in ("SASL_SSL", "SASL_PLAINTEXT"):
        assert not refused(f"{name}://0.0.0.0:1", {})
    assert refused("SSL://0.0.0.0:1", {"ssl.client.auth": "requested"})
    assert not refused("SSL://0.0.0.0:1", {"ssl.client.auth": "required"})
    assert refused("PLAINTEXT://0.0.0.0:1", {"ssl.client.auth": "required"})
    own = {"listener.name.b.ssl.client.auth": "required"}
    both = {"listener.security.protocol.map": "A:SSL,B:SSL", **own}
    assert refused("A://0.0.0.0:1", both)
    assert not refused("B://0.0.0.0:1", both)


def test_one_open_listener_beside_closed_ones_is_refused() -> None:
    places = [parse_address("SASL_SSL://0.0.0.0:1"), parse_address("B://0.0.0.0:2")]
    assert open_listeners(places, BrokerSettings()) == [ListenAddress("B", "0.0.0.0", 2)]


def test_a_broker_that_is_refused_has_neither_bound_nor_made_anything(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Binding this address would fail, with another line.
    listen = "192.0.2.1:1"
    assert serve(ServeSettings(url=str(tmp_path / "log"), listen=(listen,))) == FAILED
    assert "set logstore.allow.anonymous=true" in capfd.readouterr().err
    assert not (tmp_path / "log").exists()


def test_an_open_listener_is_warned_of_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        warning = PostureWarning(loop, [parse_address("A://0.0.0.0:1")])
        warning.begin()
        await VirtualClock().sleep_s(EVERY_S * 2.5)
        warning.end()
        await VirtualClock().sleep_s(EVERY_S * 2)
        PostureWarning(loop, []).begin()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "User:ANONYMOUS: listener=A://0.0.0.0:1" in lines[0]
