"""Batch reads of both tiers without a broker, exactly once: for Spark's tasks and for notebooks.

`extents` and `tasks` are values; `log_metadata` asks the registry and the chains what there is;
`tasks` are what is read, by `task_rows`, as Arrow record batches; `missing` finds what has moved to
a table since it was planned.
"""
