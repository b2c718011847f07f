"""Rows of the registry as steps: read, changed, and which of two is newer."""
