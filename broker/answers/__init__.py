"""Shared by handlers: checks, error codes, the cluster and its configs as clients see them."""
