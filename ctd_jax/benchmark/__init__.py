"""Records, queries, benchmarks, run files and measures."""
