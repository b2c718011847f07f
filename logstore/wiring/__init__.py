"""From a URL to the ports of a log; a log made; the lock of a living process."""
