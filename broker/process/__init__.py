"""A broker process from start to end, and its command line."""
