"""One chain as steps: opened, written, read, followed, sealed."""
