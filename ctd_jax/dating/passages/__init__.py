"""Passages: texts that are in no corpus, dated one at a time by one that is."""
