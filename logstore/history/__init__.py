"""The table of a topic as the old part of its log: which files hold which offsets, and their rows.

`forms` are values, and entries of the log; `delta` speaks to the table's log; `write` makes data
files of rows, `read` rows and Kafka batches of data files; `durable_ends` says what may be trimmed
from chains.
"""
