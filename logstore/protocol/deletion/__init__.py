"""Deletion by the clock and on request, as steps: segments, records."""
