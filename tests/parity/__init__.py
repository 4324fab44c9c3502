"""Comparisons with the published implementations; they need torch."""
