"""Corpora of many works: dated, encoded and linked, on one machine or several."""
