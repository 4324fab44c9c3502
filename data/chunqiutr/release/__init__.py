"""The authors' release: its schema, readers and writer."""
