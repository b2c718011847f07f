"""State of a table's log: its actions reconciled, as a checkpoint keeps them. Pure.

    protocol, metaData    the newest
    txn                   the newest of each application, also of others than compaction
    add                   of each file that the table has
    remove                of each file that was taken out: its only trace in the newest version

Source: the Delta transaction log protocol, "Action Reconciliation". Columns are Arrow's, since a
table may have 100,000 files. Fields of features that this version refuses are not carried along:
a table that uses one is refused before (`features`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from logstore.errors import Corrupt

if TYPE_CHECKING:
    import pyarrow as pa

Action = Mapping[str, Any]


@cache
def action_types() -> Mapping[str, pa.StructType]:
    """Of the columns of a checkpoint, by kind of action."""
    import pyarrow as pa

    text, long, flag = pa.string(), pa.int64(), pa.bool_()
    pairs, texts = pa.map_(text, text), pa.list_(text)
    file: list[tuple[str, pa.DataType]] = [("path", text), ("partitionValues", pairs)]
    return {
        "txn": pa.struct([("appId", text), ("version", long), ("lastUpdated", long)]),
        "add": pa.struct(
            [
                *file,
                *(("size", long), ("modificationTime", long), ("dataChange", flag)),
                *(("stats", text), ("tags", pairs)),
            ]
        ),
        "remove": pa.struct(
            [
                *file,
                *(("size", long), ("deletionTimestamp", long), ("dataChange", flag)),
                *(("extendedFileMetadata", flag), ("tags", pairs)),
            ]
        ),
        "metaData": pa.struct(
            [
                *(("id", text), ("name", text), ("description", text)),
                ("format", pa.struct([("provider", text), ("options", pairs)])),
                *(("schemaString", text), ("partitionColumns", texts)),
                *(("configuration", pairs), ("createdTime", long)),
            ]
        ),
        "protocol": pa.struct(
            [
                *(("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())),
                *(("readerFeatures", texts), ("writerFeatures", texts)),
            ]
        ),
    }


@dataclass(slots=True)
class Reconciled:
    """Begins as a checkpoint, or empty; entries are applied to it in order."""

    protocol: Action | None = None
    metadata: Action | None = None
    txns: dict[str, Action] = field(default_factory=dict)
    """By application."""
    _base: dict[str, list[pa.StructArray]] = field(default_factory=dict)
    """Files of the checkpoint, by kind: add, remove."""
    _adds: dict[str, Action] = field(default_factory=dict)
    _removes: dict[str, Action] = field(default_factory=dict)
    """By path, since the checkpoint. A path is in one of the two."""

    def load(self, part: pa.Table) -> None:
        """A part of the checkpoint."""
        for kind in ("add", "remove"):
            self._base.setdefault(kind, []).extend(_of_kind(part, kind))
        for txn in _rows(part, "txn"):
            self.txns[txn["appId"]] = txn
        for self.protocol in _rows(part, "protocol"):
            pass
        for self.metadata in _rows(part, "metaData"):
            pass

    def apply(self, entry: bytes) -> None:
        """One entry of the log. Raises `Corrupt`."""
        adds: dict[str, Action] = {}
        try:
            for line in entry.decode().splitlines():
                action = json.loads(line) if line.strip() else {}
                if (add := action.get("add")) is not None:
                    adds[unquote(add["path"])] = add
                elif (remove := action.get("remove")) is not None:
                    self._removes[unquote(remove["path"])] = remove
                elif (txn := action.get("txn")) is not None:
                    self.txns[txn["appId"]] = txn
                self.protocol = action.get("protocol") or self.protocol
                self.metadata = action.get("metaData") or self.metadata
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"not an entry of a table's log: error={error!r}") from error
        for path in self._removes:
            self._adds.pop(path, None)
        for path in adds:
            self._removes.pop(path, None)
        self._adds |= adds

    def files(self, kind: str) -> pa.StructArray:
        """All actions of one kind, add or remove, one for each path."""
        import pyarrow as pa

        touched = self._adds.keys() | self._removes.keys()
        whole = [_without(array, touched) for array in self._base.get(kind, ())]
        since = self._adds if kind == "add" else self._removes
        new = as_array(since.values(), action_types()[kind])
        return pa.concat_arrays([*whole, new])


def as_array(actions: Iterable[Action], kind: pa.StructType) -> pa.StructArray:
    """Of JSON's or Parquet's objects; fields that `kind` does not name are dropped."""
    import pyarrow as pa

    return pa.array([_fitted(action, kind) for action in actions], kind)


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """Arrow wants maps as pairs, wherever they are."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _fitted(value.get(one.name), one.type) for one in kind}
    if pa.types.is_map(kind) and isinstance(value, Mapping):
        return list(value.items())
    return value


def _rows(part: pa.Table, kind: str) -> Iterator[Action]:
    for array in _of_kind(part, kind):
        yield from array.to_pylist()


def _of_kind(part: pa.Table, kind: str) -> Sequence[pa.StructArray]:
    """The actions of one kind, with the fields that we carry along, absent ones null."""
    import pyarrow as pa

    if kind not in part.schema.names:
        return []
    wanted = action_types()[kind]
    arrays = []
    for chunk in part.column(kind).chunks:
        there = chunk.drop_null()
        has = dict(zip((one.name for one in there.type), there.flatten(), strict=True))
        columns = [
            has[one.name].cast(one.type) if one.name in has else pa.nulls(len(there), one.type)
            for one in wanted
        ]
        arrays.append(pa.StructArray.from_arrays(columns, fields=list(wanted)))
    return arrays


def _without(files: pa.StructArray, paths: set[str]) -> pa.StructArray:
    import pyarrow as pa

    if not paths:
        return files
    kept = [unquote(path) not in paths for path in files.field("path").to_pylist()]
    return files.filter(pa.array(kept, pa.bool_()))
