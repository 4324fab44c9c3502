"""Errors of files that are not what their readers expect."""

from __future__ import annotations


class SourceError(ValueError):
  """Error of a source file that its parser cannot read; names the location."""


class FolderError(ValueError):
  """Error of a data set's folder; names file, line and field."""
