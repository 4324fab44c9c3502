"""Corrections of readers: their meaning, dating again, tables and TEI."""
