"""A topic and its records, for people and as JSON."""

import base64
from typing import Any

from logstore.cli.inspect.topic_view import StoredRecordLine, TopicView
from logstore.cli.output import jsonable, print_facts, print_table, time_text

PREVIEW_CHARACTERS = 80
NONE = "-"


def print_topic(view: TopicView) -> None:
    topic = view.topic
    print_facts(
        [
            ("topic", topic.name),
            ("topic id", topic.topic_id.hex()),
            ("settings", settings_text(topic.configs)),
        ]
    )
    print_table(
        f"{len(view.partitions)} partitions",
        ("partition", "leader", "leader epoch", "replicas", "start", "end", "stretches"),
        [
            (
                p.partition,
                p.leader,
                p.leader_epoch,
                ",".join(map(str, p.replicas)),
                p.start,
                p.end,
                len(p.stretches),
            )
            for p in view.partitions
        ],
    )
    if view.cleaning:
        print_table(
            "key compaction",
            (
                "partition",
                "table end",
                "rows in table",
                "clean end",
                "settled end",
                "dirty ratio",
                "due",
            ),
            [
                (
                    p.partition,
                    p.table_end,
                    p.table_rows if p.table_rows >= 0 else NONE,
                    p.clean_end,
                    p.settled_end,
                    f"{p.dirty_ratio:.2f}",
                    p.trouble or ("yes" if p.is_due else "no"),
                )
                for p in view.cleaning
            ],
        )
    if view.records:
        print_table(
            f"{len(view.records)} records",
            ("partition", "offset", "timestamp", "key", "value", "headers"),
            [_record(record) for record in view.records],
        )


def topic_json(view: TopicView) -> Any:
    """As `jsonable`, with keys and values as text where they are text, else in Base64."""
    answer = jsonable(view)
    for record, line in zip(view.records, answer["records"], strict=True):
        line["key"], line["value"] = _coded(record.key), _coded(record.value)
        line["headers"] = [{"name": n, "value": _coded(v)} for n, v in record.headers]
    return answer


def _coded(data: bytes | None) -> dict[str, str] | None:
    if data is None:
        return None
    try:
        return {"utf8": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _preview(data: bytes | None) -> str:
    """Text if it is printable, else hexadecimal digits; cut after a line's worth."""
    if data is None:
        return "null"
    text = data[: 4 * PREVIEW_CHARACTERS].decode("utf-8", "replace")
    if not text.isprintable() or "\ufffd" in text[:PREVIEW_CHARACTERS]:
        text = f"0x{data[:PREVIEW_CHARACTERS].hex()}"
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"


def _record(record: StoredRecordLine) -> tuple[object, ...]:
    headers = ", ".join(f"{name}={_preview(value)}" for name, value in record.headers)
    value = "(transaction marker)" if record.is_control else _preview(record.value)
    key = NONE if record.is_control else _preview(record.key)
    time = time_text(record.timestamp) or NONE
    return (record.partition, record.offset, time, key, value, headers or NONE)


def settings_text(configs: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in configs.items()) or NONE
