"""One broker epoch at run time: its chain, the partitions that it leads and follows."""
