"""What handlers share: checks, error codes, what clients are shown."""
