"""Compaction's tasks on a Spark cluster; compaction itself is `logstore.compaction`."""
