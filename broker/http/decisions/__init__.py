"""Decides what pages of metrics and health say. Pure."""
