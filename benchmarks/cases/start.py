"""From spawn to the first accepted connection, and memory when nothing has happened."""

from benchmarks.peers.server import Server

PEERS = ("logstore", "kafka")


def run(server: Server) -> dict[str, float]:
    return {"start s": server.started_s, "idle RSS MB": server.rss_bytes() / 1e6}
