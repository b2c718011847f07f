"""The driver and the tasks of a sink, without Spark: stage, fix one attempt, have it adopted."""
