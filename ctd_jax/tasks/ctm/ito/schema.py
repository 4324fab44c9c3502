"""Schema of replies: JSON of a fixed form that gives nothing away.

The game is about hints; a hint with the entity, a dynasty or a year would end
it. A reply that breaks the form or leaks raises an error, whose message is the
complaint that the seat gets (see `play`). The keys 分析, 理由, 主题实体 and
我的排序 are the paper's; 时期, the believed period, is ours and never
published.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ctd_jax.tasks.ctm.ito.game import DESCRIBE, Description, Ranking
from ctd_jax.tasks.ctm.ito.views import View
from ctd_jax.tasks.ctm.replies import parse_json_object, to_simplified
from ctd_jax_datasets.ctm import period_names

ANALYSIS, REASON, ITEM, RANK, LABEL = (
  "分析",
  "理由",
  "主题实体",
  "我的排序",
  "时期",
)
# Years and centuries, in either script and any numerals.
_YEAR_PATTERN = re.compile(
  r"公元前?|西元前?|世[纪紀]|[0-9０-９]{2,}|[〇零一二三四五六七八九十百千]{2,}年"
)


class ReplyError(ValueError):
  """Invalid reply; the message says what would be valid."""


class LeakError(ReplyError):
  """Description whose reason gives away what the others must guess."""


def _parse_fields(text: str) -> dict:
  try:
    return parse_json_object(text)
  except ValueError as error:
    raise ReplyError(str(error)) from None


def find_leaks(reason: str, names: Iterable[str]) -> list[str]:
  """Returns the leaks in a reason: names, dynasty words, years.

  Args:
    reason: reason of a seat, in either script.
    names: names and aliases of all entities of the game.
  """
  text = to_simplified(reason)
  leaked_texts = [name for name in names if to_simplified(name) in text]
  leaked_texts += [
    mention.text for mention in period_names.find_period_mentions(text)
  ]
  return leaked_texts + _YEAR_PATTERN.findall(text)


def read_description(
  text: str, view: View, names: Iterable[str]
) -> Description:
  """Returns the description in a reply.

  Args:
    text: whole reply.
    view: view of the seat.
    names: names that the reason must not contain.

  Raises:
    ReplyError: if the form is invalid.
    LeakError: if only the reason leaks.
  """
  fields = _parse_fields(text)
  item, reason = fields.get(ITEM), fields.get(REASON)
  by_spelling = {
    to_simplified(theme_item): theme_item for theme_item in view.theme.items
  }
  if not isinstance(item, str) or to_simplified(item) not in by_spelling:
    raise ReplyError(
      f"{ITEM} is {item!r}, should be one of {'、'.join(view.theme.items)}"
    )
  if not isinstance(reason, str) or not reason.strip():
    raise ReplyError(f"{REASON} is {reason!r}, should be a sentence")
  if leaked_texts := find_leaks(reason, names):
    raise LeakError(
      f"{REASON} names {'、'.join(dict.fromkeys(leaked_texts))}; it must "
      "name no entity, dynasty or year"
    )
  labels = period_names.find_period_labels(str(fields.get(LABEL, "")))
  believed_label = labels[0] if len(labels) == 1 else None
  return Description(
    view.seat, by_spelling[to_simplified(item)], reason.strip(), believed_label
  )


def read_ranking(text: str, view: View) -> Ranking:
  """Returns the rank in a reply.

  Raises:
    ReplyError: if it is no integer from 1 to the number of seats.
  """
  rank = _parse_fields(text).get(RANK)
  if isinstance(rank, str) and rank.strip().isdecimal():
    rank = int(rank)
  # Not isinstance: true in JSON is a bool, which is an int.
  if type(rank) is not int or not 1 <= rank <= view.num_seats:
    raise ReplyError(
      f"{RANK} is {rank!r}, should be a whole number from 1 to {view.num_seats}"
    )
  return Ranking(view.seat, rank)


def read_reply(
  text: str, view: View, names: Iterable[str]
) -> Description | Ranking:
  """Returns the description or rank in a reply, by the phase."""
  if view.phase == DESCRIBE:
    return read_description(text, view, names)
  return read_ranking(text, view)
