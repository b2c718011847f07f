"""The digest of the interop matrix sees every field, and its records hold what is hard."""

from tests.clients.hashed_records import FIRST_MS, Placed, Sent, digest, records


def test_the_digest_tells_null_from_empty_and_names_from_values() -> None:
    plain = Sent(0, FIRST_MS, b"k", b"v", (("a", b"b"),))
    others = [
        plain._replace(key=b""),
        plain._replace(key=None),
        plain._replace(key=b"kv", value=b""),
        plain._replace(value=None),
        plain._replace(headers=(("ab", b""),)),
        plain._replace(headers=(("a", None),)),
        plain._replace(timestamp=FIRST_MS + 1),
        plain._replace(partition=1),
    ]
    digests = {digest([Placed(7, record)]) for record in [plain, *others]}

    assert len(digests) == len(others) + 1
    assert digest([Placed(7, plain)]) != digest([Placed(8, plain)])


def test_the_order_of_arrival_does_not_matter() -> None:
    placed = [Placed(offset, record) for offset, record in enumerate(records(50, seed=1))]

    assert digest(reversed(placed)) == digest(placed)


def test_nulls_empty_ones_and_every_byte_are_among_the_records() -> None:
    found = list(records(500, seed=1))
    fields = [field for record in found for field in (record.key, record.value)]
    in_headers = [value for record in found for _, value in record.headers]

    for wanted in (None, b""):
        assert wanted in fields
        assert wanted in in_headers
    assert set(b"".join(field or b"" for field in fields)) == set(range(256))
