"""Reads of both tiers for a broker's clients: memory, segments, tables."""
