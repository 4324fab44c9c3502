"""Helpers that know nothing about chronicles: files, tables, plots, flags."""
