"""Validity of statements: curves over log time and models that predict them."""
