"""Rankings of records for queries: dense search, baselines and run files."""
