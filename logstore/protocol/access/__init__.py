"""Changes of who may do what: rows in the registry, and their records in the store."""
