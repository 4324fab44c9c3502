"""Asking chat models: a client, journals, many questions at a time."""
