"""SYNTHETIC chronicle, invented whole: the state 「滄」 never existed.

Tests and the tiny config need a benchmark of the real structure that is learned
in a minute. As in the real works, the annals date by omission, about half of
the months have no entry, persons and places come and go, rites keep to their
season, sieges recur in almost the same words, and two commentaries repeat an
entry while two late ones, without punctuation, quote it with its date.

A record's key is the month that the grammar drew; scanning the annals
recovers it.
"""

import dataclasses
import itertools
import pathlib
import random
import re
from collections.abc import Iterable, Iterator

from ctd_jax.benchmark.benchmark import EVENT, NEG_COMMENT, Record
from ctd_jax.chronology import dates, numerals, reigns, sexagenary
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.utils import files
from ctd_jax_datasets.chunqiutr.base_texts import block_splits

TIMELINE = "mini"
TITLE = "《滄史》"
ANNALS, NARRATIVE, DIALOGUE = "cang_annals", "cang_narrative", "cang_dialogue"
NOTES, GLOSSES = "cang_notes", "cang_glosses"
SOURCE_TITLES = {
  ANNALS: "滄史",
  NARRATIVE: "滄史傳",
  DIALOGUE: "滄史問對",
  NOTES: "滄史注",
  GLOSSES: "滄史疏",
}

_SEASONS = "春夏秋冬"
# Names and templates. A slot such as `{officer}` is filled with a name that is
# active in the month of the entry.
_WORDING = files.read_wording(
  pathlib.Path(__file__).with_name("mini_wording.tsv")
)
# Matters that recur -> what is put in the place of what in the second entry.
_RECURRENCES = _WORDING["recurrence"]
_HOUSES = _WORDING["names"]["houses"]
(_NEIGHBOURS,), (_TITLES,), (_GIVEN_NAMES,) = (
  _WORDING["names"][key] for key in ("neighbours", "titles", "given names")
)
_ACTIVE_MONTHS = (40, 80)  # of a person or a place
_REIGN_MONTHS = (50, 110)  # of a neighbour's ruler
_NUM_OFFICERS = 30
_NUM_PLACES = 40
_FIRST_DAY_NUMBER = 17  # sexagenary number of the first day of the calendar
_DAYS_PER_MONTH = 29.53  # mean lunation

# Probabilities. A season opens with an entry more often than not, so that about
# half of the months are empty, as in the Annals.
_FIRST_MONTH_ENTRY_PROBABILITY = 0.62  # of the first month of a season
_MONTH_ENTRY_PROBABILITY = 0.3  # of any other month
_SECOND_ENTRY_PROBABILITY = 0.3  # of one more entry in a month
_RECURRENCE_PROBABILITY = 0.3  # of a siege, rite or disaster
_SEASON_ONLY_PROBABILITY = 0.45  # of a first month dated by its season alone
_DAY_PROBABILITY = 0.35  # of a sexagenary day
_NARRATIVE_PROBABILITY = 0.85  # that the narrative takes up an entry
_DIALOGUE_PROBABILITY = 0.8  # that the dialogue takes up an entry


@dataclasses.dataclass(frozen=True)
class _DatedName:
  """A person or place, and the ordinal months in which it occurs."""

  text: str
  first_month: int
  last_month: int

  def is_active(self, month: int) -> bool:
    return self.first_month <= month <= self.last_month


@dataclasses.dataclass(frozen=True)
class _Entry:
  """An entry of the annals about one matter, without its date."""

  text: str
  topic: str
  slots: dict[str, str]


def make_splits() -> dict[TimeKey, str]:
  """Returns the split of every month: one year of each reign per held-out."""
  return block_splits(reigns.load_timeline(TIMELINE))


def generate_records(seed: int = 0) -> list[Record]:
  """Returns the records of the invented chronicle, without placeholders.

  They are sorted by id. Ids are shuffled; `order` counts inside each work.
  """
  rng = random.Random(f"mini:{seed}")
  timeline = reigns.load_timeline(TIMELINE)
  chronicle = _Chronicle(timeline, rng)
  rows = list(chronicle.generate_rows())
  numbers = list(range(len(rows)))
  rng.shuffle(numbers)
  orders = dict.fromkeys((ANNALS, NARRATIVE, DIALOGUE, NOTES, GLOSSES), 0)
  records = []
  for number, (source, key, text) in zip(numbers, rows, strict=True):
    kind = NEG_COMMENT if source in (NOTES, GLOSSES) else EVENT
    records.append(
      Record(f"r{number:05d}", text, source, kind, key, orders[source])
    )
    orders[source] += 1
  return sorted(records, key=lambda record: record.record_id)


class _Chronicle:
  """Grammar of the chronicle: names, events, wording in five works."""

  def __init__(self, timeline: Timeline, rng: random.Random):
    self.timeline = timeline
    self.rng = rng
    self.officers = self._make_active_names(
      (_HOUSES, _GIVEN_NAMES), _NUM_OFFICERS
    )
    (first_characters,), (last_characters,) = (
      _WORDING["names"][f"{place} characters of places"]
      for place in ("first", "last")
    )
    self.place_names = self._make_active_names(
      (first_characters, last_characters), _NUM_PLACES
    )
    self.rulers, self.envoys = self._make_rulers_and_envoys()
    self.pending_entries: dict[int, list[_Entry]] = {}

  def generate_rows(self) -> Iterator[tuple[str, TimeKey, str]]:
    """Yields (work, month, text) month by month."""
    previous_key = None
    for month, key in enumerate(self.timeline.months):
      for position, entry in enumerate(self._draw_entries(month)):
        if position == 0:
          date = self._format_date(key, previous_key)
        elif self.rng.random() < _DAY_PROBABILITY / 2:
          date = f"{self._draw_day(month)}，"
        else:
          date = ""
        previous_key = key
        yield ANNALS, key, f"{date}{entry.text}。"
        yield from self._write_comments(key, month, entry, date)

  def _draw_entries(self, month: int) -> list[_Entry]:
    """Returns the entries of a month; often there are none."""
    rng, key = self.rng, self.timeline.key_at(month)
    entries = self.pending_entries.pop(month, [])
    # Draws stay in this order: another order is another chronicle.
    if key.year == 1 and key.month == 1:
      entries.insert(0, self._make_entry("accession", "公立", month))
    elif self.timeline.months[month : month + 2][-1].reign > key.reign:
      entries.append(self._make_entry("death", "公薨于{place}", month))
    for person in (*self.officers, *(r for row in self.rulers for r in row)):
      if person.last_month == month and month < len(self.timeline) - 1:
        entries.append(self._make_entry("death", f"{person.text}卒", month))
    entry_probability = (
      _FIRST_MONTH_ENTRY_PROBABILITY
      if key.month % 3 == 1
      else _MONTH_ENTRY_PROBABILITY
    )
    if rng.random() < entry_probability:
      entries.append(self._draw_entry(key, month))
      while rng.random() < _SECOND_ENTRY_PROBABILITY:
        entries.append(self._draw_entry(key, month))
    for entry in entries:
      if entry.topic in _RECURRENCES and rng.random() < _RECURRENCE_PROBABILITY:
        self._schedule_recurrence(entry, month)
    return entries

  def _draw_entry(self, key: TimeKey, month: int) -> _Entry:
    """Returns an entry of the month: one in four keeps to its season."""
    season = _SEASONS[(key.month - 1) // 3]
    table = _WORDING[season if self.rng.random() < 0.25 else "entry"]
    topic, pattern = self.rng.choice(
      [(topic, pattern) for topic in table for pattern in table[topic]]
    )
    return self._make_entry(topic, pattern, month)

  def _schedule_recurrence(self, entry: _Entry, month: int) -> None:
    """Plans the same matter again, one or two months later."""
    recurrence_words, replaced_words = _RECURRENCES[entry.topic]
    text = entry.text
    if self.rng.random() < 0.5:
      text = (
        text.replace(replaced_words, recurrence_words, 1)
        if replaced_words
        else recurrence_words + text
      )
    later_month = month + self.rng.choice((1, 1, 2))
    self.pending_entries.setdefault(later_month, []).append(
      dataclasses.replace(entry, text=text, topic=entry.topic + "_again")
    )

  def _make_entry(self, topic: str, pattern: str, month: int) -> _Entry:
    slots = self._draw_slots(month)
    return _Entry(pattern.format(**slots), topic, slots)

  def _draw_slots(self, month: int) -> dict[str, str]:
    """Returns names for the slots of a text, all active in `month`."""
    rng = self.rng

    def draw_active(names: list[_DatedName], count: int = 1) -> list[str]:
      active = [name.text for name in names if name.is_active(month)]
      return rng.sample(active, count) if count > 1 else [rng.choice(active)]

    first_state, second_state, third_state = rng.sample(
      range(len(_NEIGHBOURS)), 3
    )
    officer, officer2 = draw_active(self.officers, 2)
    slots = {
      "state": _NEIGHBOURS[first_state],
      "state2": _NEIGHBOURS[third_state],
      "ruler": draw_active(self.rulers[first_state])[0],
      "ruler2": draw_active(self.rulers[second_state])[0],
      "envoy": draw_active(self.envoys[first_state])[0],
      "envoy2": draw_active(self.envoys[second_state])[0],
      "officer": officer,
      "officer2": officer2,
      "place": draw_active(self.place_names)[0],
      "reign": self.timeline.reigns[self.timeline.key_at(month).reign - 1].name,
    }
    # Commentary cites the full date of a month before.
    cited_key = self.timeline.key_at(max(month - rng.randint(3, 40), 0))
    return slots | {"cited": dates.format_key(cited_key, self.timeline)}

  # Wording of the works.

  def _format_date(self, key: TimeKey, previous_key: TimeKey | None) -> str:
    """Returns the date that the annals write before a month's first entry."""
    is_new_year = (
      previous_key is None
      or (previous_key.reign, previous_key.year) != key.triple[:2]
    )
    season = (key.month - 1) // 3
    is_new_season = is_new_year or (previous_key.month - 1) // 3 != season
    text = ""
    if is_new_year:
      year = numerals.format_numeral(key.year, with_you=True)
      text += f"{'元' if key.year == 1 else year}年，"
    if is_new_season:
      text += f"{_SEASONS[season]}，"
      if key.month % 3 == 1 and self.rng.random() < _SEASON_ONLY_PROBABILITY:
        return text
    royal_prefix = "王" if season == 0 and is_new_year else ""
    month = numerals.format_numeral(key.month, with_you=True)
    text += f"{royal_prefix}{'正' if key.month == 1 else month}月"
    if self.rng.random() < _DAY_PROBABILITY:
      text += self._draw_day(self.timeline.ordinal(key))
    return text + "，"

  def _draw_day(self, month: int) -> str:
    day = int(month * _DAYS_PER_MONTH) + self.rng.randrange(29)
    return sexagenary.format_cyclic_index((_FIRST_DAY_NUMBER + day) % 60)

  def _write_comments(
    self, key: TimeKey, month: int, entry: _Entry, date: str
  ) -> Iterator[tuple[str, TimeKey, str]]:
    """Yields the texts of the four commentaries on one entry."""
    rng, topic = self.rng, entry.topic.removesuffix("_again")
    slots = self._draw_slots(month) | entry.slots
    season = f"{_SEASONS[(key.month - 1) // 3]}，"
    if rng.random() < _NARRATIVE_PROBABILITY:
      opening = rng.choice((date, season, ""))
      narration = rng.choice(_WORDING["narrative"][topic]).format(**slots)
      yield NARRATIVE, key, f"{opening}{entry.text}，{narration}"
    if rng.random() < _DIALOGUE_PROBABILITY:
      opening = rng.choice((date, ""))
      answer = rng.choice(_WORDING["dialogue"][topic]).format(**slots)
      yield DIALOGUE, key, f"{opening}{entry.text}。{answer}"
    quotation = re.sub("[，。、：]", "", date + entry.text)
    for source, table in ((NOTES, "note"), (GLOSSES, "gloss")):
      count = rng.choice((0, 1, 2, 2, 3))
      for piece in rng.sample(_WORDING[table][""], count):
        yield source, key, quotation + piece.format(**slots)

  # Persons and places.

  def _make_active_names(
    self, parts: tuple[Iterable[str], Iterable[str]], count: int
  ) -> list[_DatedName]:
    """Returns `count` names whose active months cover the timeline evenly."""
    names = []
    texts = ["".join(pair) for pair in itertools.product(*parts)]
    for position, text in enumerate(self.rng.sample(texts, count)):
      length = self.rng.randint(*_ACTIVE_MONTHS)
      # A name may be active before the first month and after the last.
      span = len(self.timeline) + length
      first = round(span * position / count) - length
      names.append(_DatedName(text, first, first + length))
    return names

  def _make_rulers_and_envoys(
    self,
  ) -> tuple[list[list[_DatedName]], list[list[_DatedName]]]:
    """Returns rulers and envoys of each neighbour, who follow one another."""
    given_names = list(_GIVEN_NAMES)
    rulers, envoys = [], []
    for state, title in zip(_NEIGHBOURS, _TITLES, strict=True):
      names = iter(self.rng.sample(given_names, len(given_names)))
      rulers.append(self._make_succession(f"{state}{title}", names))
      envoys.append(
        self._make_succession(f"{state}{self.rng.choice(_HOUSES)}", names)
      )
    return rulers, envoys

  def _make_succession(
    self, prefix: str, names: Iterator[str]
  ) -> list[_DatedName]:
    succession, first = [], -self.rng.randint(0, _REIGN_MONTHS[0])
    while first < len(self.timeline):
      last = first + self.rng.randint(*_REIGN_MONTHS)
      succession.append(_DatedName(prefix + next(names), first, last))
      first = last + 1
    return succession
