"""One setting: what a text means, and which texts are refused."""

import pytest

from logstore.config.kinds import InvalidConfig, Setting, SettingKind, unknown_name


def setting(kind: SettingKind, **fields: object) -> Setting:
    return Setting(name="some.name", kind=kind, default="", documentation="", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SettingKind.BOOLEAN, "True", True),
        (SettingKind.BOOLEAN, "false", False),
        (SettingKind.INT, " -5 ", -5),
        (SettingKind.LONG, str(2**63 - 1), 2**63 - 1),
        (SettingKind.DOUBLE, "0.5", 0.5),
        (SettingKind.STRING, "any thing", "any thing"),
        (SettingKind.LIST, "a, b,,c", ("a", "b", "c")),
        (SettingKind.LIST, "", ()),
    ],
)
def test_a_text_has_a_meaning(kind: SettingKind, text: str, value: object) -> None:
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SettingKind.BOOLEAN, "yes"),
        (SettingKind.BOOLEAN, ""),
        (SettingKind.INT, ""),
        (SettingKind.INT, "1_000"),
        (SettingKind.INT, "+1"),
        (SettingKind.INT, "1.0"),
        (SettingKind.INT, "٣"),
        (SettingKind.INT, "-"),
        (SettingKind.INT, "--1"),
        (SettingKind.INT, str(2**31)),
        (SettingKind.LONG, str(2**63)),
        (SettingKind.DOUBLE, "half"),
    ],
)
def test_a_text_without_one_is_refused_by_name(kind: SettingKind, text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"some\.name"):
        setting(kind).parse(text)


def test_limits_and_choices_hold() -> None:
    assert setting(SettingKind.INT, at_least=1, at_most=3).parse("3") == 3
    for kind, text, fields in (
        (SettingKind.INT, "0", {"at_least": 1}),
        (SettingKind.DOUBLE, "1.1", {"at_most": 1}),
        (SettingKind.STRING, "c", {"one_of": ("a", "b")}),
        (SettingKind.LIST, "a,c", {"one_of": ("a", "b")}),
    ):
        with pytest.raises(InvalidConfig):
            setting(kind, **fields).parse(text)


def test_the_nearest_name_is_offered() -> None:
    assert "did you mean retention.ms?" in str(unknown_name("retention.msec", ["retention.ms"]))
    assert "did you mean" not in str(unknown_name("zzz", ["retention.ms"]))
