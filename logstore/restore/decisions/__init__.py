"""Decides which rows a log's objects prove, and what proves them. Pure."""
