"""Baselines that predict the curve of a statement from its text."""
