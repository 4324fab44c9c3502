"""Passages dated alone, by a timeline and by the calendar of a chronicle."""

import dataclasses
import json

import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.passages import copies, fitting, scores
from ctd_jax.dating.passages.passages import PassageDater, find_reasons
from ctd_jax.dating.posterior import CredibleBlock
from tests.dating import chronicles
from tests.dating.chronicles import DEEDS, PLACES, name_person
from tests.tools import processes

TIMELINE = reigns.load_timeline("mini")
YEARS = 10
FIRST_ID = 101  # number of the first record of the chronicle


@pytest.fixture(scope="module")
def calendar():
  return calendar_lib.load_calendar("西晉")


@pytest.fixture(scope="module")
def chronicle(calendar):
  """A dater of ten years of 泰始, two records a month, all labelled."""
  texts, months = [], []
  is_told = (calendar.years > 265) & (calendar.years <= 265 + YEARS)
  ordinals = np.flatnonzero(is_told & ~calendar.is_leap).reshape(YEARS, 12)
  for (year, month), ordinal in np.ndenumerate(ordinals):
    person = name_person(year + 1, month + 1)
    place = PLACES[2 * month : 2 * month + 2]
    texts.append(f"{person}守{place}，賊{DEEDS[(year + month) % 4]}。")
    texts.append(f"是月，{person}擊賊於{place}，破之。")
    months += [ordinal, ordinal]
  labels = Labels(np.array(months), np.ones(len(months), int))
  dater = PassageDater.fit(
    texts, labels, calendar, row_ids=FIRST_ID + np.arange(len(texts))
  )
  return texts, np.array(months), dater


@pytest.fixture(scope="module")
def annals():
  """A dater of the invented annals, years of train months known."""
  everything = chronicles.make_chronicle()
  is_told = ["無事可書" not in text for text in everything.texts]
  told = everything.take(np.flatnonzero(is_told))
  dater = PassageDater.fit(list(told.texts), told.labels(), TIMELINE)
  hidden = np.flatnonzero(~told.train & (told.answers == 1))
  return told.texts, told.months, hidden, dater


def find_reason(dates, expert):
  (reason,) = [r for r in dates.reasons if r.expert == expert]
  return reason


def test_a_retold_record_gives_its_year(chronicle):
  _, months, dater = chronicle
  row = 2 * (5 * 12 + 7)
  person = name_person(6, 8)
  dates = dater.date(f"{person}守{PLACES[14:16]}，嘗擊賊，破之。")
  assert dater.calendar.years[dates.month] == dater.calendar.years[months[row]]
  assert np.exp(dates.log_p).sum() == pytest.approx(1)
  known = find_reason(dates, "known")
  assert known.weight > 1
  assert set(known.linked) & {FIRST_ID + row, FIRST_ID + row + 1}
  assert person in str(known.note)


def test_a_large_corpus_is_learned_from_a_sample(chronicle, monkeypatch):
  texts, months, whole = chronicle
  monkeypatch.setattr(fitting, "MAX_FITTED_RECORDS", 150)
  labels = Labels(months, np.ones(len(months), int))
  dater = PassageDater.fit(texts, labels, whole.calendar)
  assert len(dater.state.texts) == len(texts)
  rows = [2 * (12 * 5 + month) for month in range(12)]
  for row in rows:  # also those that the sample does not have
    reasons = dater.date(texts[row]).reasons
    assert {row, row + 1} & {k for reason in reasons for k in reason.linked}
  years = dater.calendar.years
  assert years[dater.date(texts[rows[3]]).month] == years[months[rows[3]]]
  with pytest.raises(ValueError, match="150 records at most"):
    PassageDater.fit(texts, labels, whole.calendar, external_texts=["賊"])


def test_shares_add_up_to_the_log_odds(chronicle, annals):
  texts, _, dater = chronicle
  passages = [*texts[:20], "七月，賊大水壞廬舍。", "abc", "顓頊"]
  cases = [(dater, text) for text in passages]
  cases += [(annals[3], annals[0][row]) for row in annals[2][:20].tolist()]
  for dater, text in cases:
    for month in (None, 30, len(dater.date(text).log_p) - 1):
      dates = dater.date(text, month=month)
      total = sum(reason.weight for reason in dates.reasons)
      assert dates.prior_log_odds + total == pytest.approx(
        dates.log_odds, abs=1e-6
      )


def test_a_record_left_out_changes_the_month_as_said(chronicle):
  _, _, dater = chronicle
  for year, month in ((2, 3), (6, 8), (9, 11)):
    text = f"{name_person(year, month)}守{PLACES[2 * month - 2 : 2 * month]}。"
    dates = dater.date(text)
    known = find_reason(dates, "copies")
    # Without the records in the same words neither their names count.
    words = find_reason(dates, "words")
    without = dater.date(text, month=dates.month, exclude=known.linked)
    probability = np.exp(without.log_p[dates.month])
    linked = [row for reason in without.reasons for row in reason.linked]
    assert not set(linked) & set(known.linked)
    assert probability < np.exp(dates.log_p[dates.month]) / 2
    # Near copies count for more then.
    assert probability <= known.probability_without + 0.1
    assert words.weight > 0


def test_a_printed_month_cut_from_the_text_changes_it_as_said(chronicle):
  _, _, dater = chronicle
  body = "賊大水壞廬舍。"
  dates = dater.date(f"七月，{body}")
  opening = find_reason(dates, "openings")
  (span,) = opening.spans
  assert f"七月，{body}"[slice(*span)].startswith("七月")
  assert dater.calendar.months[dates.month] == 7
  cut = dater.date(body, month=dates.month)
  np.testing.assert_allclose(
    np.exp(cut.log_p[dates.month]), opening.probability_without, rtol=1e-6
  )


@pytest.mark.parametrize("text", ["hello", "饕餮魑魅魍魎蚩尤"])
def test_what_the_corpus_does_not_know_is_outside(chronicle, text):
  dates = chronicle[2].date(text)
  assert dates.log_p[-1] > np.log(0.5)
  assert dates.month == len(dates.log_p) - 1
  assert find_reason(dates, "unknown").weight > 0


def test_a_passage_that_says_little_has_a_month(chronicle):
  dater = chronicle[2]
  dates = dater.date("王至。")
  assert np.exp(dates.log_p[:-1].max()) < np.exp(dates.log_p[-1]) < 0.5
  assert dates.month == dates.log_p[:-1].argmax()


def test_a_date_outside_of_the_calendar_is_outside(chronicle):
  text = "洪武三年七月，賊因大水壞民廬舍。"
  dates = chronicle[2].date(text)
  assert dates.log_p[-1] > np.log(0.4)
  unknown = find_reason(
    chronicle[2].date(text, month=len(dates.log_p) - 1), "unknown"
  )
  assert "洪武三年" in str(unknown.note)
  assert text[slice(*unknown.spans[0])].startswith("洪武")


@pytest.mark.parametrize(
  "text", ["七月，賊起。", "泰始三年夏五月甲子朔，賊起。", "賊起。"]
)
def test_printed_dates_count_as_in_a_chronicle(chronicle, text):
  _, _, dater = chronicle
  corpus, heads = undated_texts.read_headed_corpus(
    [text], dater._scorer.reader.axis, dater.calendar
  )
  expected = undated_texts.HeadDates(
    corpus=corpus,
    calendar=dater.calendar,
    heads=heads,
    is_read=np.array([True]),
  ).log_scores(np.array([0]))
  scores = dater._scorer.reader.read(text).dates.log_scores(np.array([0]))
  np.testing.assert_allclose(
    scores - scores.max(), expected - expected.max(), atol=1e-5
  )


def test_hidden_events_are_dated_far_above_chance(annals):
  texts, months, hidden, dater = annals
  years = [(key.reign, key.year) for key in TIMELINE.months]
  right = []
  for row in hidden[:60].tolist():
    dates = dater.date(texts[row], exclude=[row], with_reasons=False)
    right.append(years[dates.log_p[:-1].argmax()] == years[months[row]])
  assert np.mean(right) > 0.25  # chance is 1 in 30


def test_a_reason_against_a_year_names_the_year_it_is_for(annals):
  dater = annals[3]
  scored = dater._scorer.score("夏，四月，岷人侵我桃谷。")
  cited = scored.cited
  year = cited.years[
    np.where(cited.years != UNKNOWN, cited.chances, 0).argmax()
  ]
  is_year = dater._scorer.reader.axis.year_of == year
  evidence = dataclasses.replace(
    dater._weigh_evidence(scored),
    terms={"cited": 5.0 * is_year},
    substitutes={},
  )
  for month, code in (
    (np.flatnonzero(is_year)[0], "note.cited"),
    (np.flatnonzero(~is_year)[0], "note.cited.against"),
  ):
    _, reasons = find_reasons(dater._scorer, scored, evidence, int(month))
    (reason,) = [reason for reason in reasons if reason.expert == "cited"]
    assert reason.note.code == code
    assert f"of year {year + 1}" in str(reason.note)
    assert reason.linked


def test_a_passage_never_sees_itself_where_it_is_left_out(annals):
  texts, _, hidden, dater = annals
  for row in hidden[:10].tolist():
    dates = dater.date(texts[row], exclude=[row])
    assert all(row not in reason.linked for reason in dates.reasons)


@pytest.fixture(scope="module")
def spread(calendar):
  """A dater of records sure of a month, of a year, and of neither."""
  people = [name_person(1 + row // 12, 1 + row % 12) for row in range(120)]
  texts = [f"{person}守涼州，{person}與民約法。" for person in people]
  texts += [
    "甄姜獻白雉於廷。",
    "是歲，董卓馬超戰於長安城。",
    "紂王囚西伯於羑里。",
  ]
  months = np.append(np.arange(40, 160), [UNKNOWN] * 3)
  labels = Labels(months, np.ones(len(texts), int))
  year = np.flatnonzero(calendar.years == calendar.years[150])
  chances = [0.9, 0.1, *np.full(len(year), 1 / len(year)), 1]
  block = CredibleBlock(
    rows=len(texts) - np.array([3, 2, 1]),
    starts=np.cumsum([0, 2, len(year), 1]),
    months=np.array([100, len(calendar), *year, len(calendar)]),
    probabilities=np.array(chances),
    num_months=len(calendar),
  )
  is_placed = labels.is_known.copy()
  is_placed[-2:] = True
  dater = PassageDater.fit(
    texts, labels, calendar, posteriors=block, is_placed=is_placed
  )
  return texts, year, dater


def test_posteriors_of_records_are_what_they_say(spread):
  _, _, dater = spread
  axis = dater._scorer.reader.axis
  beliefs = dater.state.hidden.log_beliefs(
    np.array([0]), dater.state.year_prior
  )
  assert beliefs[0].argmax() == axis.year_of[100]


def test_a_record_is_evidence_at_the_level_that_it_is_sure_of(spread):
  texts, year, dater = spread
  # A copy, and a retelling: the year is sure, and none of its months.
  for text in (texts[-2], "董卓與馬超大戰於長安城"):
    dates = dater.date(text)
    p_months = np.exp(dates.log_p[:-1])
    assert p_months[year].sum() > 0.9, text
    assert p_months.max() < 0.3
  # A copy of what is beyond the calendar is beyond it.
  assert np.exp(dater.date(texts[-1]).log_p[-1]) > 0.9


@pytest.mark.parametrize(
  ("text", "share", "is_exact"),
  [
    ("董卓馬超戰於長安城", 1, True),
    # A variant, and other punctuation.
    ("是歲董卓，馬超；戰于長安城", 1, True),
    ("秋八月，董卓馬超戰於長安城", 0.75, True),  # all but the date
    ("董卓馬超戰於長安州城", 0.8, False),  # a character too many
    ("董卓來", 0, False),
  ],
)
def test_copies_come_first(spread, text, share, is_exact):
  texts, _, dater = spread
  copies = dater.date(text).copies
  if not share:
    assert not copies
    return
  assert copies[0].row == len(texts) - 2
  assert copies[0].share == pytest.approx(share, abs=0.1)
  assert copies[0].is_exact == is_exact


def test_chances_of_copies_are_learned_from_other_years():
  # A formula of every year, and what two records of one year tell.
  years = np.arange(200) // 2
  bodies = [f"春王正月公即位{chr(0x5100 + year) * 6}奔齊" for year in years]
  hashes = np.arange(200, dtype=np.uint32) * 7919
  is_event = np.ones(200, bool)
  chances = copies.learn_chances(bodies, years, is_event, hashes)
  assert (np.diff(chances, axis=1) >= 0).all()  # by length
  assert (np.diff(chances, axis=2) <= 0).all()  # by the years that have it
  assert chances[1, copies.LENGTHS.index(12), 0] > 0.98
  assert chances[1, copies.LENGTHS.index(4), 3] < 0.9


def test_records_that_say_nothing_are_learned_from_as_well(calendar):
  names = [name_person(year, m) for year in range(5) for m in range(12)]
  texts = [f"{name}守涼州。" for name in names] * 2 + ["〇"] * 60
  months = np.append(np.tile(np.arange(60), 2), np.arange(60))
  labels = Labels(months, np.ones(len(texts), int))
  dater = PassageDater.fit(texts, labels, calendar)
  assert not dater._scorer.score("〇", [120]).terms
  assert np.isfinite(dater.state.inverse_temperature)


def test_a_saved_dater_dates_as_before(annals, tmp_path):
  texts, _, hidden, dater = annals
  dater.save(tmp_path / "dater")
  suffixes = {path.suffix for path in (tmp_path / "dater").iterdir()}
  assert suffixes == {".npy", ".npz", ".json"}
  opened = PassageDater.open(tmp_path / "dater", TIMELINE)
  for row in hidden[:3].tolist():
    one, other = (each.date(texts[row]) for each in (dater, opened))
    np.testing.assert_array_equal(one.log_p, other.log_p)
    assert one.reasons == other.reasons
  with pytest.raises(FileExistsError, match="not empty"):
    dater.save(tmp_path / "dater")
  large = sorted((tmp_path / "dater").glob("*.npy"))[0]
  large.write_bytes(large.read_bytes()[:50])
  with pytest.raises(ValueError, match=large.name):
    PassageDater.open(tmp_path / "dater", TIMELINE)


def test_damaged_and_other_states_are_named(chronicle, tmp_path):
  _, _, dater = chronicle
  folder = tmp_path / "dater"
  with pytest.raises(FileNotFoundError, match="state.json"):
    PassageDater.open(folder, dater.calendar)
  dater.save(folder)
  with pytest.raises(ValueError, match="of a calendar of"):
    PassageDater.open(folder, TIMELINE)
  damaged = folder / fitting.SMALL_FILE
  content = damaged.read_bytes()
  damaged.write_bytes(content[:50])
  with pytest.raises(ValueError, match=damaged.name):
    PassageDater.open(folder, dater.calendar)
  damaged.write_bytes(content)
  state = folder / fitting.STATE_FILE
  table = json.loads(state.read_text(encoding="utf-8"))
  state.write_text(json.dumps(table | {"version": 99}), encoding="utf-8")
  with pytest.raises(ValueError, match="version 99"):
    PassageDater.open(folder, dater.calendar)
  state.write_text("{", encoding="utf-8")
  with pytest.raises(ValueError, match=r"state\.json: damaged"):
    PassageDater.open(folder, dater.calendar)


def test_records_without_a_month_are_refused(calendar):
  hidden = Labels(np.full(2, UNKNOWN), np.ones(2, int))
  with pytest.raises(ValueError, match="no record has one"):
    PassageDater.fit(["賊", "盜"], hidden, calendar)


def test_records_that_do_not_fit_are_refused(calendar):
  labels = Labels(np.array([3, UNKNOWN]), np.ones(2, int))
  with pytest.raises(ValueError, match="1 texts, 2 labels"):
    PassageDater.fit(["賊"], labels, calendar)
  far = dataclasses.replace(labels, month=np.array([3, len(calendar)]))
  with pytest.raises(ValueError, match=f"0..{len(calendar) - 1}"):
    PassageDater.fit(["賊", "盜"], far, calendar)
  with pytest.raises(ValueError, match="ascend"):
    PassageDater.fit(["賊", "盜"], labels, calendar, row_ids=np.array([2, 1]))


def test_years_without_records_are_hidden_as_years(calendar):
  axis = scores.make_axis(calendar)
  months = np.arange(120)
  labels = Labels(months, np.ones(120, int))
  none = CredibleBlock.empty(len(axis))
  is_placed = labels.is_known
  assert fitting.choose_fold_by(axis, labels, none, is_placed) == "records"
  gaps = np.where(axis.year_of[months] % 4 == 1, UNKNOWN, months)
  labels = dataclasses.replace(labels, month=gaps)
  assert fitting.choose_fold_by(axis, labels, none, is_placed) == "years"
  # Records sure of their years fill the gaps.
  placed = CredibleBlock(
    rows=np.flatnonzero(~labels.is_known),
    starts=np.arange(0, 2 * (~labels.is_known).sum() + 1, 2),
    months=np.repeat(months[~labels.is_known], 2),
    probabilities=np.full(2 * (~labels.is_known).sum(), 0.5),
    num_months=len(axis),
  )
  assert fitting.choose_fold_by(axis, labels, placed, is_placed) == "records"


def test_dating_a_passage_needs_no_jax():
  code = "from ctd_jax.dating.passages import passages"
  assert "jax" not in processes.list_loaded_modules(code)
