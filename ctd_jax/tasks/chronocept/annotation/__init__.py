"""Prompts, filters and agreement measures for annotating validity curves."""
