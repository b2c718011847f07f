"""Decides what commands say: figures, findings, lines of text. Pure."""
