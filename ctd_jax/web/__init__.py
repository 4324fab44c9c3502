"""Pages and a JSON API by which an index is read in a browser."""
