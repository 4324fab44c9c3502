"""Retrieval of evidence by month from chronicles dated by reigns."""

__version__ = "0.1.0"
