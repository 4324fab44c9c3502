"""Gold answers as data: one class for each form, told apart by the tag `form`.

The checker recomputes them and the judge grades against them, so a gold
answer has everything that the rules of its task compare.
"""

from __future__ import annotations

import msgspec

from ctd_jax_datasets.ctm.vocabulary import (
  EDD,
  EEU,
  LSEC,
  PJ,
  RR,
  SEC,
  START,
  TES,
  TIC,
  TOU,
)


class _TaggedGold(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="form"
):
  """Base of all golds; `form` is written to JSON before the fields."""

  @property
  def form(self) -> str:
    """The tag of the class."""
    return self.__struct_config__.tag


class LabelGold(_TaggedGold, frozen=True, tag="label"):
  """EDD: the label, and all accepted labels, earliest first."""

  label: str
  acceptable: tuple[str, ...]


class OrderGold(_TaggedGold, frozen=True, tag="order"):
  """TOU: names, earliest first; names of one group are tied."""

  groups: tuple[tuple[str, ...], ...]
  by: str = START  # always; kept in the files


class YearsGold(_TaggedGold, frozen=True, tag="years"):
  """TIC: a number of years.

  Attributes:
    years: true number, without a year 0.
    with_year_zero: number as the paper counts; accepted as well.
    tolerance: accepted error in years, from the precision of the dates.
    points: `START` or `END` of each relation, in their order.
    steps: true years of each step of the chain; their sum is `years`.
  """

  years: int
  with_year_zero: int  # equal to `years` if no step crosses 1 BCE
  tolerance: int
  points: tuple[str, ...]
  steps: tuple[int, ...]

  @property
  def accepted(self) -> tuple[int, ...]:
    """Both conventions, once where they agree."""
    return tuple(dict.fromkeys((self.years, self.with_year_zero)))


class OptionGold(_TaggedGold, frozen=True, tag="option"):
  """TES: the one option of four that belongs to a period.

  Attributes:
    options: names, A first.
    periods: all labels of each option.
    correct: index of the correct option.
    label: the period.
  """

  options: tuple[str, ...]
  periods: tuple[tuple[str, ...], ...]
  correct: int
  label: str


class Anachronism(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Entity that does not belong in a scene; reason is `LATER` or `EARLIER`."""

  entity: str
  reason: str


class AnachronismGold(_TaggedGold, frozen=True, tag="anachronisms"):
  """SEC, LSEC: all anachronisms of a scene, in order of mention.

  Attributes:
    scene: name of the relation that sets the time, the first of them.
    start: first year of the scene.
    end: last year of the scene.
    anachronisms: entities not of that time; the other relations are.
  """

  scene: str
  start: int
  end: int
  anachronisms: tuple[Anachronism, ...]

  @property
  def names(self) -> tuple[str, ...]:
    """The entities to be flagged."""
    return tuple(anachronism.entity for anachronism in self.anachronisms)


class PolarityGold(_TaggedGold, frozen=True, tag="polarity"):
  """PJ: whether the scenario is possible; if not, all pairs in conflict."""

  possible: bool
  conflicts: tuple[tuple[str, str], ...]  # (first, second) in order of mention


class NamesGold(_TaggedGold, frozen=True, tag="names"):
  """EEU, RR: one name, or several in order, with accepted alternatives.

  Attributes:
    names: names in the order of the question.
    aliases: for each name, other spellings and names that are accepted.
  """

  names: tuple[str, ...]
  aliases: tuple[tuple[str, ...], ...]


Gold = (
  LabelGold
  | OrderGold
  | YearsGold
  | OptionGold
  | AnachronismGold
  | PolarityGold
  | NamesGold
)
# Task -> form of its gold.
GOLDS_BY_TASK = {
  EDD: LabelGold,
  PJ: PolarityGold,
  TOU: OrderGold,
  RR: NamesGold,
  SEC: AnachronismGold,
  EEU: NamesGold,
  TIC: YearsGold,
  TES: OptionGold,
  LSEC: AnachronismGold,
}
