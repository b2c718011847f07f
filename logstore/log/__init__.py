"""The write side of the log: one broker epoch, its chain and the partitions it leads."""
