"""Hostile JSON for the fuzz tests of readers: right values, mangled.

A member or two of what a reader expects is replaced, removed, renamed, repeated
or altered, so that what comes out is almost the schema: that is where readers
break. Whole values at random are here too (`values`).
"""

import copy

from hypothesis import strategies as st

from ctd_jax_datasets.chunqiutr.release_months import COMPILERS, WORKS
from tests.chronology.hostile_text import anything, joined, pieces

names = st.sampled_from(
  (
    *("time_mapping", "sort_key", "no_event", "versions", "neg_samples"),
    *("neg_sample", "parsed_comment", "sid", "text", "compiler", "author"),
    *("match_score", "match_strong", "source", "split_by_sort_key"),
    *("debug_info", "month_counts", "qid", "query", "type", "pos_sids"),
    *("target_sort_keys", "ctd_jax_source", "ctd_jax_group", *WORKS),
    *("id", "_id", "title", "metadata", "start", "end", "family", "kind"),
    *("time", "time_meta", "era_year", "lunar_month_label", "description"),
    *("1-1-1", "01-1-1", "1-4-1", "1-1-13", "1-1", "滄懷公元年正月"),
  )
)
odd = st.sampled_from(
  (
    *(0, 1, 2, 12, 13, -1, 1.0, 0.5, 10**400, 2**63, float("nan"), 1e300),
    *(float("inf"), "1", " 2", "１", "1_0", "", " ", "\ud800", "\x00", "\n"),
    *([1, 1, 1], [1, 4, 1], [1, 1, 1, 1], [[1, 1, 1]], [0], {}, [], None),
    *("train", "val", "validation", "point", "window", "gap", "other"),
    *(name for found in COMPILERS.values() for name in found),
  )
)
values = st.recursive(
  odd | st.booleans() | st.integers(-5, 300) | st.floats() | joined(pieces, 3),
  lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
  ),
  max_leaves=5,
)


class Mangled:
  """A JSON value; messages show what was done to it rather than the value."""

  def __init__(self, value, changes: list[str]):
    self.value, self.changes = value, changes

  def __repr__(self) -> str:
    return "; ".join(self.changes)


CHANGES = ("replace", "remove", "repeat", "rename", "alter", "alter", "alter")
# Member -> what no one would write there, but for a slip.
SLIPS = {
  "time": ("0000-01-—", "0265-01-甲子", "265-13", "²-1", "9" * 5000, "-"),
  "lunar_month_label": ("闰十三月", "閏", "闰正月", "无月", "冬", "十三月"),
  "lunar_month": (0, 1.0, 13, "3", "閏", None),
  "reign": ("咸宁四年, 十二月", "咸宁九十九年", "泰始", "", "元年"),
  "ad_year": (0, -1, 9999, 10**400, "265"),
  "match_score": (10**400, -1, 2, "0.5", float("nan"), float("inf"), None),
  "family": ("point", "window", "gap", ""),
  "paper_family": ("point", "window", "gap", ""),
  "kind": ("event", "no_event", "neg_comment", ""),
  "type": ("point", "window", "", None, 1),
  "sort_key": ([1, 1, 13], [1.0, 1, 1], ["1", 1, 1], [1, 4, 1]),
  "start": ("1-1-1", "1-1-1L", "9" * 5000 + "-1-1", "1-9-1", "2-1-7"),
  "end": ("1-1-1", "1-1-1L", "1-1-13", "2-2-12"),
}


def like(value):
  """Values that may well stand in the same place."""
  if isinstance(value, bool):
    return st.booleans()
  if isinstance(value, int):
    return st.integers(0, 60)
  if isinstance(value, list):
    return st.permutations(value).map(list) | st.just(value[1:])
  if isinstance(value, dict):
    return st.permutations(list(value.items())).map(dict)
  return joined(pieces, 3) | st.sampled_from(("window", "point", "顧棟高", "1"))


@st.composite
def mangled(draw, whole):
  """Returns a JSON value, one to four places of it changed.

  Args:
    draw: of hypothesis.
    whole: returns the value; a function, so that no message prints it.
  """
  top, changes = [whole()], []
  for _ in range(draw(st.integers(1, 4))):
    parent, key, path = top, 0, []
    for _ in range(draw(st.integers(0, 9))):
      inner = parent[key]
      if not isinstance(inner, dict | list) or not inner:
        break
      keys = list(inner) if isinstance(inner, dict) else range(len(inner))
      parent, key = inner, draw(st.sampled_from(keys))
      path.append(key)
    change = draw(st.sampled_from(CHANGES))
    new = None
    if parent is top or change == "replace":
      new = parent[key] = draw(values)
    elif change == "alter":
      near = like(parent[key])
      if key in SLIPS:
        near = st.sampled_from(SLIPS[key]).map(copy.deepcopy)
      new = parent[key] = draw(near)
    elif change == "remove":
      del parent[key]
    elif isinstance(parent, dict):
      new, again = draw(names | anything), copy.deepcopy(parent[key])
      if change == "rename":
        del parent[key]
      parent[new] = again
    else:
      new = draw(st.integers(0, len(parent)))
      parent.insert(new, copy.deepcopy(parent[key]))
    changes.append(f"{change} {path}: {new!r}")
  return Mangled(top[0], changes)
