"""Passages: texts outside the corpus, dated by it one at a time."""
