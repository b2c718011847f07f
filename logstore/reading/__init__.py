"""Reads of both tiers, exactly once: segments, and the table that holds what is older.

`planning` decides, and holds the values that others pass on; `brokers` answers clients from memory,
segments and tables; `direct` needs no broker: it asks the registry and the chains what there is,
and reads for Spark's tasks and for notebooks, as Arrow record batches.
"""
