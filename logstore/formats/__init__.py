"""Everything stored, byte for byte: segments, checkpoints, rows, topic records, keys. Pure."""
