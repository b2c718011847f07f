"""One setting: what a text means, and which texts are refused."""

import pytest

from logstore.config.kinds import InvalidConfig, Kind, Setting, unknown_name


def setting(kind: Kind, **fields: object) -> Setting:
    return Setting(name="some.name", kind=kind, default="", documentation="", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, "True", True),
        (Kind.BOOLEAN, "false", False),
        (Kind.INT, " -5 ", -5),
        (Kind.LONG, str(2**63 - 1), 2**63 - 1),
        (Kind.DOUBLE, "0.5", 0.5),
        (Kind.STRING, "any thing", "any thing"),
        (Kind.LIST, "a, b,,c", ("a", "b", "c")),
        (Kind.LIST, "", ()),
    ],
)
def test_a_text_has_a_meaning(kind: Kind, text: str, value: object) -> None:
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.BOOLEAN, ""),
        (Kind.INT, ""),
        (Kind.INT, "1_000"),
        (Kind.INT, "+1"),
        (Kind.INT, "1.0"),
        (Kind.INT, "٣"),
        (Kind.INT, "-"),
        (Kind.INT, "--1"),
        (Kind.INT, str(2**31)),
        (Kind.LONG, str(2**63)),
        (Kind.DOUBLE, "half"),
    ],
)
def test_a_text_without_one_is_refused_by_name(kind: Kind, text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"some\.name"):
        setting(kind).parse(text)


def test_limits_and_choices_hold() -> None:
    assert setting(Kind.INT, at_least=1, at_most=3).parse("3") == 3
    for kind, text, fields in (
        (Kind.INT, "0", {"at_least": 1}),
        (Kind.DOUBLE, "1.1", {"at_most": 1}),
        (Kind.STRING, "c", {"one_of": ("a", "b")}),
        (Kind.LIST, "a,c", {"one_of": ("a", "b")}),
    ):
        with pytest.raises(InvalidConfig):
            setting(kind, **fields).parse(text)


def test_the_nearest_name_is_offered() -> None:
    assert "did you mean retention.ms?" in str(unknown_name("retention.msec", ["retention.ms"]))
    assert "did you mean" not in str(unknown_name("zzz", ["retention.ms"]))
