"""Servers that cases run against: a logstore broker, and Apache Kafka beside it."""
