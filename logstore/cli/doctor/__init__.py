"""`logstore doctor`: what is wrong with a log and its brokers."""
