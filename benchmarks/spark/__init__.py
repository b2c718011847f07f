"""Spark as a user of the log, and of Apache Kafka beside it: sessions, jobs, their topics."""
