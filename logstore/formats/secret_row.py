"""The row of the cluster's own secret, by which its brokers know each other. Pure.

    secret / cluster    key: 32 bytes, as hexadecimal digits

A reader of it can act as a broker: roles that read a log may not read this partition key.
"""

from dataclasses import dataclass
from typing import Annotated

from logstore.formats.row_fields import Form, decode_row, encode_row
from logstore.ports.registry import Row

SECRET, CLUSTER_SECRET = "secret", "cluster"
SECRET_BYTES = 32


def _unpack(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != SECRET_BYTES:
        raise ValueError(f"bytes={len(key)}")
    return key


_KEY = Form(str, bytes.hex, _unpack, is_secret=True)


@dataclass(frozen=True, slots=True, repr=False)
class SecretRow:
    key: Annotated[bytes, _KEY]

    def row(self) -> Row:
        return encode_row(self)

    @staticmethod
    def of(row: Row) -> "SecretRow":
        return decode_row(SecretRow, row)
