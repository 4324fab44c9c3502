"""Alignment of editions and works with the text of the annals."""
