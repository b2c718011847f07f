"""`format("logstore")` as a sink: batch writes and streams."""
