"""`logstore inspect`: contents of a log, read without a broker."""
