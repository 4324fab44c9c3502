"""Helpers that know nothing of chronicles: files, tables, plots, flags."""
