"""Verifiers, exchanges and rules: what proves who a client is, and decides what it may. Pure."""
