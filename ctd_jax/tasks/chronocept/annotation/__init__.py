"""Tools for those who annotate validity curves, and for reading their work."""
