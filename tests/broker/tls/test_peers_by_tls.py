"""Brokers reach each other by TLS where their listener speaks it, and trust whom they are to."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from broker.cluster.peers import Peer, TcpPeers
from broker.tls.handshakes import Handshakes
from broker.tls.secured_listener import SecuredListener
from logstore.config.broker import BrokerSettings
from logstore.ports.clock import SystemClock
from tests.broker.running import DEADLINE_S, Running
from tests.broker.tls.conftest import secured_broker
from tests.certificates import Authority


async def version_read(running: Running, listener: SecuredListener, wait_s: float) -> int | None:
    """The answer to another broker, that reaches it as `listener` does; None: not reached."""
    peers = TcpPeers(SystemClock(), random.Random(1), context=lambda: listener.peer_context)
    epoch = running.log.epoch
    peers.watch({1: Peer(1, epoch, "127.0.0.1", running.listener.port)})
    task = asyncio.get_running_loop().create_task(peers.run(lambda *_: None))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not peers.connected:
                    await SystemClock().sleep_s(0.01)
        return await peers.read_feed(1, epoch, 0)
    finally:
        task.cancel()
        await asyncio.wait([task])


def asked(running: Running, given: dict[str, str], wait_s: float = DEADLINE_S) -> int | None:
    async def ask() -> int | None:
        handshakes = Handshakes(asyncio.get_running_loop())
        try:
            text = BrokerSettings(given).of_listener("PLAINTEXT").text
            return await version_read(
                running, SecuredListener("PLAINTEXT", text, handshakes), wait_s
            )
        finally:
            handshakes.close()

    return running.wait_for(ask())


@pytest.mark.parametrize("trust", ["same pair", "truststore", "checked name"])
def test_a_broker_is_asked_by_tls(authority: Authority, tmp_path: Path, trust: str) -> None:
    with secured_broker(authority, tmp_path) as running:
        own = tmp_path / "pair.pem"
        if trust != "same pair":
            own = authority.pair("another").write(tmp_path / "other.pem")
        given = {"ssl.keystore.location": str(own)}
        if trust != "same pair":
            given["ssl.truststore.location"] = str(authority.write(tmp_path / "ca.pem"))
        if trust == "checked name":
            given["ssl.endpoint.identification.algorithm"] = "https"
        assert asked(running, given) is not None


def test_a_certificate_of_another_authority_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority("stranger").pair().write(tmp_path / "stranger.pem")
    with secured_broker(authority, tmp_path) as running:
        assert asked(running, {"ssl.keystore.location": str(stranger)}, 0.3) is None
