"""The authors' release: schema, readers and writer."""
