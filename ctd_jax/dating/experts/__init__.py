"""Experts of the dating model: each reads one kind of evidence."""
