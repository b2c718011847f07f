"""One partition in its chains: producers, sizes, look-ups of offsets and times."""
