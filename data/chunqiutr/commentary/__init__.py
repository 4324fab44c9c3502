"""Readers of the later commentaries and their units."""
