"""`logstore top`: a live screen of a cluster."""
