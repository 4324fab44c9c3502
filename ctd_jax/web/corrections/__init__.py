"""Corrections on the pages: forms, the list, undoing, the API."""
