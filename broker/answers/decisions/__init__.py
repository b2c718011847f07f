"""Checks of requests, and what clients are shown. Pure."""
