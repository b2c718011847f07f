"""Commands on a log by its URL: made, probed, compacted, trimmed, restored, upgraded."""
