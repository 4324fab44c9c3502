"""An invented chronicle with everything that is true of its records."""

import dataclasses

import numpy as np

from ctd_jax.benchmark.benchmark import NEG_COMMENT
from ctd_jax.chronology import dates, reigns
from ctd_jax.dating import corpus
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.texts.works import Entry, Place
from ctd_jax_datasets.chunqiutr import mini
from ctd_jax_datasets.chunqiutr.base_texts import block_splits
from tests.benchmarks import posterior_metrics

TIMELINE = reigns.load_timeline("mini")
REIGNS = 2  # of the chronicle are enough
SPLIT_OF = block_splits(TIMELINE)
# Of records that hold a name, a place and a deed.
SURNAMES = "張王李趙陳楊黃周吳徐"
DIGITS = "零一二三四五六七八九十甲乙"
PLACES = "涼州秦州雍州益州荊州揚州徐州青州兗州幽州并州豫州"
DEEDS = ("寇掠百姓", "修築城池", "獻白雉於廷", "大水壞廬舍")


@dataclasses.dataclass(frozen=True)
class Chronicle:
  """Texts with everything that is true of them."""

  texts: tuple[str, ...]
  months: np.ndarray
  answers: np.ndarray
  train: np.ndarray
  empty: np.ndarray

  def read(self, external_texts=()):
    return corpus.read_corpus(self.texts, TIMELINE, external_texts, self.empty)

  def labels(self):
    return Labels(
      np.where(self.train, self.months, UNKNOWN),
      np.where(self.train, self.answers, UNKNOWN),
    )

  def take(self, order):
    return Chronicle(
      tuple(self.texts[row] for row in order),
      self.months[order],
      self.answers[order],
      self.train[order],
      self.empty[order],
    )


def format_table(*reigns_of_table):
  """Returns a reign table of 滄: name, first year and number of years."""
  rows = [
    f"{name}\t滄\t{first}\t1\t{years}\t\tinvented\n"
    for name, first, years in reigns_of_table
  ]
  return "".join(["\t".join(reigns.TABLE_COLUMNS) + "\n", *rows])


def name_person(year, month):
  """Returns a name that nobody has but in one month."""
  return f"{SURNAMES[year % 10]}勇{DIGITS[year]}{DIGITS[month]}"


def records_of(lines, headings=()):
  """Returns lines as the entries of a text."""
  return [
    Entry(line, Place("chronicle.txt", number), headings=tuple(headings))
    for number, line in enumerate(lines, 1)
  ]


def measure(fitted, chronicle):
  """Returns the metrics of the hidden events, as a model dates them."""
  rows = np.flatnonzero(~chronicle.train & fitted.features.is_event)
  return posterior_metrics.compute_posterior_metrics(
    fitted.predict(), rows, chronicle.months[rows]
  )


def make_dated_lines():
  """Returns the lines of a chronicle of eight years of 泰始, in 西晉."""
  lines = []
  years = ["泰始元", *"二三四五六七八"]
  for year, surname in zip(years, "張王李趙陳楊黃周", strict=True):
    lines.append(f"{year}年")
    for month, name in zip("二四五七八十", "勇毅儉讓忠信", strict=True):
      lines.append(f"{month}月，{surname}{name}守涼州。")
      lines.append(f"{surname}{name}擊賊，破之。")
  return lines


def make_chronicle():
  """Returns the records of two reigns, and an empty one for other months."""
  rows = [
    (record.text, record.key, record.kind != NEG_COMMENT)
    for record in mini.generate_records(0)
    if record.key.reign <= REIGNS
  ]
  told, num_told = {key for _, key, _ in rows}, len(rows)
  for key in TIMELINE.months:
    if key not in told and key.reign <= REIGNS:
      date = dates.format_key(key, TIMELINE)
      rows.append((f"{date}，無事可書。", key, True))
  texts, keys, answers = zip(*rows, strict=True)
  return Chronicle(
    texts,
    np.array([TIMELINE.ordinal(key) for key in keys]),
    np.array(answers, int),
    np.array([SPLIT_OF[key] == "train" for key in keys]),
    np.arange(len(texts)) >= num_told,
  )
