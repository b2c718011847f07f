"""The table of a topic as the old part of its log: which files hold which offsets, and their rows.

`names` and `snapshot` are values; `delta` speaks to the table's log; `write` makes data files of
rows, `read` rows and Kafka batches of data files; `durable_ends` says what may be trimmed from
chains.
"""
