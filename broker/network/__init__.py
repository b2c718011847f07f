"""Connections: frames in, answers out in order, deadlines, the list of clients."""
