"""Runs steps against real ports, and waits where a store asks for it."""
