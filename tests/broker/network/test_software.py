"""Software of clients becomes labels: few, short, and gone with the last connection."""

from broker.network.software import (
    CHARACTERS_MAX,
    OTHER,
    UNKNOWN,
    VERSIONS_MAX,
    ConnectedSoftware,
    Software,
)


def test_each_connection_counts_once_as_what_it_named_last() -> None:
    connected = ConnectedSoftware()
    ours = Software.of("kgo", "1.2")
    connected.changed(None, UNKNOWN)
    connected.changed(UNKNOWN, ours)
    connected.changed(None, UNKNOWN)
    assert connected.shown() == {ours: 1, UNKNOWN: 1}
    connected.changed(ours, None)
    connected.changed(UNKNOWN, None)
    assert connected.shown() == {}


def test_names_that_a_client_makes_up_are_cut_and_summed() -> None:
    connected = ConnectedSoftware()
    for number in range(VERSIONS_MAX + 20):
        connected.changed(None, Software.of("x" * 5_000, str(number)))
    shown = connected.shown()
    assert len(shown) == VERSIONS_MAX + 1
    assert shown[OTHER] == 20
    assert max(len(one.name) for one in shown) == CHARACTERS_MAX
