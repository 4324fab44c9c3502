"""Chronocept: how long a statement stays valid, as a curve over log time."""
