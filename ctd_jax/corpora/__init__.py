"""Corpora of many works: dated, encoded, linked; here or on other machines."""
