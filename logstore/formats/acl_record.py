"""Records of ACLs in the store, one for each version of a row, so that what was revoked stays so.

    acls/<shard>/<version, 20 digits>
    {"acls": [["User:alice", "TOPIC", "LITERAL", "orders", "*", "READ", "ALLOW"]], "format": 1,
     "shard": "3", "version": 4}

JSON in one line, keys sorted. The versions of a shard have no gaps: version 4 is created, where its
key is free, by a writer that has read version 3. So the newest record is what counts, and the row,
which brokers read, follows it (`logstore.protocol.access.acls`). Records are never removed. Pure.
"""

import json
from typing import NamedTuple

from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.formats.acl_row import AclRow, acls_of, words_of

ACL_RECORDS = "acls/"
FORMAT = 1
RECORD_BYTES_MAX = 1 << 20


class AclRecord(NamedTuple):
    shard: str
    content: AclRow

    @property
    def key(self) -> str:
        return acl_record_key(self.shard, self.content.version)


def acl_records_prefix(shard: str) -> str:
    return f"{ACL_RECORDS}{shard}/"


def acl_record_key(shard: str, version: int) -> str:
    return f"{acl_records_prefix(shard)}{version:020d}"


def encode_acl_record(record: AclRecord) -> bytes:
    fields = {
        "acls": words_of(record.content.acls),
        "format": FORMAT,
        "shard": record.shard,
        "version": record.content.version,
    }
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def decode_acl_record(key: str, data: bytes) -> AclRecord:
    """Raises `Corrupt`, also for a record under another's key, or `Refused` for a newer format."""
    try:
        fields = json.loads(data)
        is_known = fields["format"] == FORMAT
        record = None
        if is_known:
            content = AclRow(int(fields["version"]), acls_of(fields["acls"]))
            record = AclRecord(str(fields["shard"]), content)
    except (LogstoreError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"record of ACLs cannot be read: key={key}: {error}") from error
    if record is None:
        raise Refused(f"record of ACLs of an unknown format: key={key}; upgrade logstore")
    if record.key != key:
        raise Corrupt(f"record of ACLs under the key of another: key={key} record={record.key}")
    return record
