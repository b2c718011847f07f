"""Protocols of the log, as steps: generators that yield requests and decide. Pure."""
