"""Readers of the later commentaries."""
