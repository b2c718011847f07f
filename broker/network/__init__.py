"""Connections: frames in, answers out in order, deadlines, who is connected."""
