"""Audit of the rebuilt data set against its sources and the paper."""
