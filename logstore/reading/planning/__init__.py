"""Decides what a read fetches, and in which order. Pure."""
