"""Builds an index: reads works, dates their records, commits them."""
