"""Entries of a table's log: the bytes of ours, and what is made of anybody's."""

import json

import pytest
from deltalake import Schema

from logstore.errors import Corrupt
from logstore.history.forms import columns
from logstore.history.forms.entries import decode_entry, encode_commit, encode_creation
from logstore.history.forms.snapshot import OFFSET_MAX, DataFile, TableCommit
from logstore.records.arrow import arrow_schema
from tests.logstore.history.tables import NOW_MS, TOPIC_ID, a_file

HEX = TOPIC_ID.hex()

COMMIT = (
    '{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":'
    '{"mode":"Append","partitionBy":"[\\"partition\\"]"},"readVersion":3,"isBlindAppend":false,'
    '"engineInfo":"logstore","operationMetrics":{"numFiles":"1","numRemovedFiles":"0",'
    '"numOutputRows":"10","numOutputBytes":"1000"},"logstore.run":"r","logstore.starts":'
    '"{\\"2\\": 5}","logstore.ends":"{\\"2\\": 15}"}}\n'
    f'{{"txn":{{"appId":"logstore/{HEX}/2","version":15,"lastUpdated":1700000000000}}}}\n'
    '{"add":{"path":"partition=2/00000000000000000005-00000000000000000015-run-0.parquet",'
    '"partitionValues":{"partition":"2"},"size":1000,"modificationTime":1700000000000,'
    '"dataChange":true,"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"offset\\":5,'
    '\\"timestamp_ms\\":1700000000005,\\"timestamp\\":\\"2023-11-14T22:13:20.005Z\\"},'
    '\\"maxValues\\":{\\"offset\\":14,\\"timestamp_ms\\":1700000000014,'
    '\\"timestamp\\":\\"2023-11-14T22:13:20.014Z\\"},\\"nullCount\\":{\\"offset\\":0}}"}}\n'
)


def test_a_commit_is_these_bytes() -> None:
    commit = TableCommit({2: 5}, {2: 15}, [a_file(5, 15, partition=2)], (), "r")
    assert encode_commit(TOPIC_ID, 3, commit, NOW_MS).decode() == COMMIT
    entry = decode_entry(COMMIT.encode(), TOPIC_ID, 4)
    assert (entry.ends, entry.adds, entry.removed_paths) == ({2: 15}, commit.adds, [])
    assert (entry.facts.starts, entry.facts.ends) == ({2: 5}, {2: 15})
    assert (entry.facts.version, entry.facts.run) == (4, "r")


def test_only_merging_changes_no_data() -> None:
    def changes(commit: TableCommit) -> list[bool]:
        lines = encode_commit(TOPIC_ID, 3, commit, NOW_MS).decode().splitlines()
        actions = [json.loads(line) for line in lines]
        found = [action.get("add") or action.get("remove") for action in actions]
        return [one["dataChange"] for one in found if one]

    small = [a_file(0, 5), a_file(5, 10)]
    assert changes(TableCommit({}, {}, [a_file(0, 10)], small, "merge")) == [False] * 3
    assert changes(TableCommit({}, {}, (), small, "retention")) == [True] * 2
    assert changes(TableCommit({0: 10}, {0: 12}, [a_file(5, 12)], small[1:], "r")) == [True] * 2


def test_the_schema_is_that_of_the_columns() -> None:
    ours = Schema.from_json(columns.delta_schema())
    names = [field.name for field in ours.fields]
    assert names == [columns.PARTITION_COLUMN, *columns.TABLE_COLUMNS]
    without_partition = Schema([field for field in ours.fields if field.name != "partition"])
    assert without_partition == Schema.from_arrow(arrow_schema(columns.TABLE_COLUMNS))
    assert columns.file_schema() == arrow_schema(columns.TABLE_COLUMNS)


def test_two_creators_differ_in_the_time_alone() -> None:
    one, other = (encode_creation(TOPIC_ID, "t", "{}", now) for now in (NOW_MS, NOW_MS + 1))
    assert one.replace(b"1700000000000", b"1700000000001") == other


def test_entries_of_other_engines_are_understood() -> None:
    path, partition = "partition=0/c%20d.parquet", {"partition": "0"}
    lines = [
        {"commitInfo": {"timestamp": 7, "operation": "OPTIMIZE", "operationMetrics": {}}},
        {"remove": {"path": "partition=0/a%20b.parquet", "dataChange": False}},
        {"add": {"path": path, "partitionValues": partition, "size": 9}},
        {"txn": {"appId": "another's", "version": 3}},
        {"domainMetadata": {"domain": "x", "configuration": "", "removed": False}},
    ]
    data = "\n\n".join(json.dumps(line) for line in lines).encode()
    entry = decode_entry(data, TOPIC_ID, 9)
    assert entry.removed_paths == ["partition=0/a b.parquet"]
    assert entry.adds == [DataFile("partition=0/c d.parquet", 0, -1, 9, 0, OFFSET_MAX)]
    assert (dict(entry.ends), entry.facts.starts, entry.facts.operation) == ({}, None, "OPTIMIZE")
    assert decode_entry(b"", TOPIC_ID, 9).facts.timestamp_ms == 0


NO_PARTITION = b'{"add":{"path":"x","partitionValues":{},"size":1}}'


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b'{"add":{}}', NO_PARTITION])
def test_what_is_no_entry_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match=f"{9:020d}[.]json"):
        decode_entry(data, TOPIC_ID, 9)
