"""Rebuilds a registry that was lost, or is older than the log, from the chains."""
