"""Requests and responses as frames: their headers, and a small blocking client."""
