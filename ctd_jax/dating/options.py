"""Options of a dating model by name; importing them imports no experts."""

from __future__ import annotations

from collections.abc import Iterable

# What is known of the labelled records; see `FittedDatingModel.predict`.
VARIANTS = FITTED, ELIMINATION, STRICT = ("fitted", "elimination", "strict")

# Evidence that `config.dating.off` can leave out.
EVIDENCE = {
  "openings": "month, season and year number that open a record",
  "days": "sexagenary days against the computed calendar",
  "empty": "months with a placeholder have no other record",
  "seasons": "whether a season is named, against its empty months",
  "words": "names and words by year",
  "neural": "an encoder that reads the text whole, by year",
  "cited": "years cited in commentary beside the event",
  "carried": "cited years without a ruler",
  "parallels": "records that tell the same event, and messages along links",
  "room": "each work opens a month once",
  "punctuation": "the classifier of events sees punctuation",
}


def check_evidence(names: Iterable[str]) -> frozenset[str]:
  """Returns the names as a set.

  Raises:
    ValueError: if one is not of EVIDENCE.
  """
  names = frozenset(names)
  for name in sorted(names):
    if name not in EVIDENCE:
      raise ValueError(f"unknown {name!r}; there are {', '.join(EVIDENCE)}")
  return names


def check_variant(variant: str) -> str:
  """Returns the variant.

  Raises:
    ValueError: if it is not of VARIANTS.
  """
  if variant not in VARIANTS:
    raise ValueError(f"variant must be one of {VARIANTS}, got {variant!r}")
  return variant
