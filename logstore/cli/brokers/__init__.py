"""Commands that ask brokers: topics, groups, produce, consume."""
