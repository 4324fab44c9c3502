"""Benchmark: records, queries, runs and measures, without any model."""
