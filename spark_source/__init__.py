"""Spark on logstore: `format("logstore")`, read from the log's objects."""
