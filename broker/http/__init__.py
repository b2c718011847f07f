"""Metrics and health of a broker over HTTP, for operators and their tools."""
