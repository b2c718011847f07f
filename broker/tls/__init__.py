"""TLS on a connection: a layer between its socket and its frames."""
