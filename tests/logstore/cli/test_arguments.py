"""Kinds of argument that commands share."""

import argparse
from importlib.metadata import entry_points

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.cli.command import (
    BootstrapAddress,
    address,
    addresses,
    positive_number,
    setting,
    whole_number,
)
from logstore.cli.main import GROUP, parser_of


@given(st.sampled_from(["localhost", "127.0.0.1", "::1", "kafka-1.example"]), st.integers(0, 65535))
def test_an_address_reads_back_what_it_prints(host: str, port: int) -> None:
    assert address(str(BootstrapAddress(host, port))) == BootstrapAddress(host, port)


def test_several_brokers_may_be_given() -> None:
    assert addresses("a:1, [::1]:2") == [BootstrapAddress("a", 1), BootstrapAddress("::1", 2)]


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:-1", "host:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        addresses(text)


def test_a_setting_is_cut_at_its_first_equal_sign() -> None:
    assert setting("a.b=c=d") == ("a.b", "c=d")
    assert setting("a=") == ("a", "")


@pytest.mark.parametrize("text", ["", "a", "=b"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        setting(text)


@given(st.integers(0))
def test_whole_numbers_are_read(number: int) -> None:
    assert whole_number(str(number)) == number


@pytest.mark.parametrize("text", ["-1", "1.5", "", "x", "²"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        whole_number(text)


def test_zero_is_not_positive() -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        positive_number("0")


def parsed(name: str, *arguments: str) -> argparse.Namespace:
    command = entry_points(group=GROUP)[name].load()
    return parser_of({name: command}, name).parse_args([name, *arguments])


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("topics", ["create", "t"]),
        ("topics", ["list"]),
        ("topics", ["reassign", "t", "--cancel"]),
        ("groups", ["describe", "g"]),
        ("groups", ["reset-offsets", "g", "--topic", "t", "--to", "latest"]),
    ],
)
def test_where_brokers_are_may_be_said_before_and_after_the_action(
    name: str, action: list[str]
) -> None:
    where = ["--bootstrap", "kafka-1:9093", "--json"]
    for arguments in ([*where, *action], [*action, *where]):
        options = parsed(name, *arguments)
        assert options.bootstrap == [BootstrapAddress("kafka-1", 9093)]
        assert options.json
    assert parsed(name, *action).bootstrap == [BootstrapAddress("127.0.0.1", 9092)]
    assert not parsed(name, *action).json


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topics", "create", "t", "--bootstap", "h:1"], "see logstore topics create --help"),
        (["topics", "--bootstap", "list"], "see logstore topics --help"),
        (["groups", "delete", "g", "--bootstrap", "h"], "see logstore groups delete --help"),
        (["consume", "t", "--frm", "x"], "see logstore consume --help"),
    ],
)
def test_a_hint_names_the_help_of_what_was_misspelt(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert capsys.readouterr().err.rstrip().endswith(says)
