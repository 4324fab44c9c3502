"""Texts as published, read into entries, notes and places."""

from ctd_jax.texts.files import TEXT_FORMATS, read_works
from ctd_jax.texts.plain import YearHeading, match_year_heading
from ctd_jax.texts.works import (
  ENTRY_KINDS,
  Entry,
  Place,
  SideNote,
  TextError,
  Work,
)

__all__ = [
  "ENTRY_KINDS",
  "TEXT_FORMATS",
  "Entry",
  "Place",
  "SideNote",
  "TextError",
  "Work",
  "YearHeading",
  "match_year_heading",
  "read_works",
]
