"""Evaluation of runs: protocol, significance, result rows, tables and plots.

Nothing here knows a model: a system of any kind is a `benchmark.runs.Run`.
"""
