"""Corpora of many works: dated and encoded apart, on one machine or several."""
