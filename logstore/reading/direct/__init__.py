"""Reads of both tiers without a broker, for Spark's tasks and for notebooks."""
