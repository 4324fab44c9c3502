"""Pages and a JSON API that show an index in a browser."""
