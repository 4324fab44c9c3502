"""Answers of an index, and their forms: terminal, JSON, HTML, CSV and TSV."""
