"""Decisions about consumer groups, and the bytes of their records. Pure."""
