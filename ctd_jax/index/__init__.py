"""Index: a folder that answers questions about the time of records."""
