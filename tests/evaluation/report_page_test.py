"""The page of an evaluation: complete in itself, true to the run files."""

import html.parser
import re

import numpy as np
import pytest

from ctd_jax.evaluation import calibration, report, summary
from tests import synthetic
from tests.evaluation.summary_test import write

BENCHMARK = synthetic.benchmark()
QUERIES = BENCHMARK.queries["test"]


class Reader(html.parser.HTMLParser):
  """Collects addresses, tables and text; knows unclosed elements."""

  def __init__(self):
    super().__init__()
    self.open, self.addresses, self.tables, self.text = [], [], [], ""

  def handle_starttag(self, tag, attrs):
    if tag not in ("meta", "img"):
      self.open.append(tag)
    self.addresses += [v for k, v in attrs if k in ("src", "href", "srcset")]
    if tag == "table":
      self.tables.append([])
    if tag == "tr":
      self.tables[-1].append([])
    if tag in ("td", "th"):
      self.tables[-1][-1].append("")

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if "style" in self.open:
      return
    self.text += data
    if "td" in self.open or "th" in self.open:
      self.tables[-1][-1][-1] += f"{data} "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("page")
  write(folder, "ours", right=False)
  write(folder, "friend")
  write(folder, "oracle", track="T1")
  rows = calibration.find_split_rows(BENCHMARK, "test")
  log_p = np.full((len(rows), 48), np.log(0.2 / 47))
  for i, row in enumerate(rows):  # every second record a month late
    month = BENCHMARK.timeline.ordinal(BENCHMARK.records[row].key) + i % 2
    log_p[i, min(month, 47)] = np.log(0.8)
  calibration.write_dates(folder, "ours", "test", BENCHMARK, rows, log_p)
  report.write_page(summary.summarize_runs([folder], BENCHMARK, "ours"))
  return folder


@pytest.fixture(scope="module")
def reader(folder):
  reader = Reader()
  reader.feed((folder / report.PAGE_FILE_NAME).read_text(encoding="utf-8"))
  assert reader.open == []
  return reader


def table(reader, *header):
  (lines_of_table,) = (
    lines
    for lines in reader.tables
    if tuple(map(str.strip, lines[0][: len(header)])) == header
  )
  return [[cell.split()[0] for cell in line] for line in lines_of_table[1:]]


@pytest.mark.slow
def test_it_needs_nothing_besides_itself(folder, reader):
  assert reader.addresses
  for address in reader.addresses:
    assert address.startswith(("data:image/png;base64,", "#"))
  text = (folder / report.PAGE_FILE_NAME).read_text(encoding="utf-8")
  assert "<script" not in text
  assert not re.search(r"url\(|@import|https?://", text)
  names = {path.name for path in folder.glob("*.png")}
  assert "hit_by_month.test.neg1_ne1_dq0.png" in names
  assert "calibration.test.png" in names


def test_figures_are_those_of_the_runs(reader):
  (compared,) = table(reader, "without, or instead", "its hit@1")
  assert compared[:5] == ["friend", "1.0000", "-1.0000", "0", "6"]
  line, *_ = table(reader, "system", "events", "month right")
  rows = calibration.find_split_rows(BENCHMARK, "test")
  is_right = [
    i % 2 == 0 for i, r in enumerate(rows) if BENCHMARK.kinds[r] == "event"
  ]
  right = np.mean(is_right)
  assert line[:4] == ["ours", str(len(is_right)), f"{right:.4f}", "1.0000"]
  assert line[-1] == f"{abs(right - 0.8):.4f}"


def test_training_is_shown_where_there_was_one(folder, tmp_path):
  write(tmp_path, "ours")
  page = report.write_page(
    summary.summarize_runs([tmp_path], BENCHMARK, "ours"),
    {"loss": ([1, 2], [3.0, 2.0]), "learning_rate": ([1, 2], [0.1, 0.0])},
  )
  text = page.read_text(encoding="utf-8")
  assert 'href="#training"' in text
  assert 'alt="training.png"' in text
  untrained = (folder / report.PAGE_FILE_NAME).read_text(encoding="utf-8")
  assert "#training" not in untrained


def test_tracks_share_no_table(reader):
  for lines in reader.tables:
    cells = {cell.strip() for line in lines for cell in line}
    assert not {"oracle", "friend"} <= cells
    assert not {"oracle", "ours"} <= cells


def test_errors_show_question_records_and_answers(reader):
  first = re.search(r"first answer at rank (\d+)", reader.text)
  assert int(first[1]) > 5
  assert "answer 1 of 1" in reader.text
  shown_queries = [query for query in QUERIES if query.text in reader.text]
  assert shown_queries
  for query in shown_queries:
    row = BENCHMARK.record_ids.index(query.positives[0])
    assert BENCHMARK.records[row].text in reader.text


@pytest.mark.slow
def test_dates_that_cannot_be_read_are_named(tmp_path):
  write(tmp_path, "ours")
  path = tmp_path / "dates.ours.test.tsv"
  path.write_text(
    "record_id\tmonth\tprobability\tmass_before\nr99999\t1-1-1\t0.5\t0\n"
  )
  with pytest.raises(ValueError, match=r"dates.ours.test.tsv:2: 'r99999'"):
    report.write_page(summary.summarize_runs([tmp_path], BENCHMARK, "ours"))
