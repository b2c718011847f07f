"""Decides what is moved, merged and cleaned, and in which tasks. Pure."""
