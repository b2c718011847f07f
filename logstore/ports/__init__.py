"""What the log asks of its surroundings: clock, object store, registry. Interfaces."""
