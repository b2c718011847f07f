"""Consumer groups of the classic protocol: decisions, their records, and who runs them."""
