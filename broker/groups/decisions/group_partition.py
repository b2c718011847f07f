"""Which partition of `__consumer_offsets` holds a group. Pure.

    abs(hash of the group id) mod partitions

The hash is Java's `String.hashCode` over UTF-16 units, `abs` Kafka's `Utils.abs`: the smallest
integer, which has no positive twin, becomes 0. Clients and tools rely on neither; a cluster's
brokers must agree for as long as its topic lives.
"""

OFFSETS_TOPIC = "__consumer_offsets"


def partition_of(group_id: str, partition_count: int) -> int:
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def java_hash(text: str) -> int:
    """`String.hashCode`: a signed int32."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
