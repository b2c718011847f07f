"""Seeded attacks on the native codec, which its twin in Python judges: `make fuzz`."""
