"""Positions and batches of a query, decided without Spark. Pure."""
