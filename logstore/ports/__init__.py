"""Interfaces to the outside: clock, object store, registry."""
