"""Retrieval: rankings of records for queries, lexical, dense and sparse."""
