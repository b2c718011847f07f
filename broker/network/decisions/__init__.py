"""Decides how much a client, or an address, may do. Pure."""
