"""A kafka-python consumer in a fetch session, while its test changes the log.

    python -m tests.clients.session_stories --bootstrap HOST:PORT

Reads topic `a`, later `b` too, and prints each value that it got. It fails where it has no session.
"""

import argparse
import sys

import kafka

POLL_MS = 500
FIRST, ADDED = [("a", 0), ("a", 1)], [("a", 2), ("b", 0)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    options = parser.parse_args()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=None,
        auto_offset_reset="earliest",
        metadata_max_age_ms=1_000,
    )
    consumer.assign([kafka.TopicPartition(*one) for one in FIRST])
    while True:
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                value = record.value.decode()
                if value == "add":
                    places = [kafka.TopicPartition(*one) for one in FIRST + ADDED]
                    consumer.assign(places)
                if value == "session":
                    (session,) = consumer._fetcher._session_handlers.values()
                    assert session.next_metadata.session_id > 0, session.next_metadata
                sys.stdout.write(f"read {value}\n")
                sys.stdout.flush()
                if value == "end":
                    consumer.close()
                    return 0


if __name__ == "__main__":
    sys.exit(main())
