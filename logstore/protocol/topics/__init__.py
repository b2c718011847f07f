"""Topics as steps: created, changed, deleted, and what proves that they were."""
