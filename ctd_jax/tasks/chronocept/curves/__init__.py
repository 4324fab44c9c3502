"""Curves of validity over log time: skew-normal, scores and fits."""
