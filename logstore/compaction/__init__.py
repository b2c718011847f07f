"""Compaction: moves committed records from segments into each topic's Delta table, its history.

`decisions`, pure:

cut        which partitions move, from where to where; frozen before anything is read
plan       the cut as tasks that each read a range of segments once; JSON, both ways
task       one task: segments → Parquet files, or small files → one
commit     one conditional commit per topic, on the snapshot that its starts came from
run        all of it in order, under a lease; `local` and `spark` carry tasks out
merge, retention    small neighbours become one file; files below log start are dropped
"""
