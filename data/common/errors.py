"""Errors of files that are not what their readers expect."""

from __future__ import annotations


class SourceError(ValueError):
  """A source text is not what its parser was written for."""


class FolderError(ValueError):
  """A folder is not what it should be; the message says where."""
