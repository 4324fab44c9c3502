"""Reads questions: times, days, words, passages."""
