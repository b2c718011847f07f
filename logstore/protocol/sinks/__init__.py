"""Batches that Spark sinks stage: copied, counted, checked, swept away."""
