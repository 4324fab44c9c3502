"""Questions of CTM: counts, gold, splits, the checker, games, files."""

import collections
import json

import msgspec
import pytest

from ctd_jax_datasets import build
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.ctm import (
  checks,
  ctm_dataset_builder,
  generator,
  periods,
  repository,
  schema,
)
from ctd_jax_datasets.ctm.periods import LSEC, SPLITS
from ctd_jax_datasets.ctm.schema import Anachronism


@pytest.mark.slow
def test_counts_by_type_and_by_relations(generated_questions):
  assert sum(generator.TYPE_COUNTS.values()) == 8700
  assert sum(generator.BUCKETS.values()) == len(generated_questions) == 8750
  listed = collections.Counter(q.task for q in generated_questions if q.listed)
  assert listed == generator.TYPE_COUNTS
  buckets = collections.Counter(
    generator.size_bucket(q.task, len(q.relations)) for q in generated_questions
  )
  assert buckets == generator.BUCKETS
  sizes = {len(q.relations) for q in generated_questions if q.task == LSEC}
  assert sizes == set(range(4, 16))
  several = {
    len(q.relations) for q in generated_questions if q.task not in ("EDD", LSEC)
  }
  assert several == set(range(2, 11))


def test_no_entity_and_no_name_is_in_two_splits(generated_questions):
  groups = {
    record.entity_id: record.group
    for record in repository.assign_groups(repository.load_entities())
  }
  splits = collections.defaultdict(set)
  for question in generated_questions:
    for relation in question.relations:
      splits[groups[relation.entity_id]].add(question.split)
    if question.task == "TES":
      for option in question.gold.options:
        splits[option].add(question.split)
  assert {len(found) for found in splits.values()} == {1}
  counts = collections.Counter(q.split for q in generated_questions)
  shares = [round(counts[s] / counts.total(), 2) for s in SPLITS]
  assert shares == [0.5, 0.1, 0.4]


def test_texts_and_ids_are_unique(generated_questions):
  for name in ("question", "question_id"):
    values = {getattr(q, name) for q in generated_questions}
    assert len(values) == len(generated_questions)
  assert all(q.provenance for q in generated_questions)


def test_answers_that_a_guess_would_give_are_not_common(generated_questions):
  def count(task, member):
    golds = [q.gold for q in generated_questions if q.task == task]
    return collections.Counter(getattr(gold, member) for gold in golds)

  polarity = count("PJ", "possible")
  assert 0.4 < polarity[True] / polarity.total() < 0.6
  labels = count("EDD", "label")
  assert set(labels) == set(periods.LABELS)
  assert max(labels.values()) / labels.total() < 0.35
  letters = count("TES", "correct")
  assert max(letters.values()) / letters.total() < 0.32
  widest = {
    q.distance.widest for q in generated_questions if len(q.relations) > 1
  }
  assert widest == set(range(10))


@pytest.mark.slow
def test_same_seed_same_questions_whatever_else_is_made(generated_questions):
  again = generator.generate_questions(tasks=("EEU", "TES"))
  assert again == tuple(
    q for q in generated_questions if q.task in ("EEU", "TES")
  )
  other = generator.generate_questions(seed=1, tasks=("EEU",))
  texts = {q.question for q in again if q.task == "EEU"}
  assert len(texts & {q.question for q in other}) < len(texts) / 2


def test_json_round_trip(generated_questions):
  for question in generated_questions[::97]:
    line = schema.format_json_line(question)
    assert schema.question_from_json(json.loads(line)) == question
  right = schema.to_json(generated_questions[0])
  for wrong, message in (
    ({"extra": 1}, "Question: .* unknown field `extra`"),
    ({"gold": {"form": "guess"}}, r"value 'guess' - at `\$.gold.form`"),
  ):
    with pytest.raises(ValueError, match=message):
      schema.question_from_json(right | wrong)


def tampered(question):
  """Yields questions whose gold is wrong in one way each."""

  def gold(**changes):
    changed = msgspec.structs.replace(question.gold, **changes)
    return msgspec.structs.replace(question, gold=changed)

  match question.task:
    case "EDD":
      other = next(p for p in periods.LABELS if p != question.gold.label)
      yield msgspec.structs.replace(gold(label=other), answer=other)
      yield gold(acceptable=(other,))
    case "PJ":
      yield gold(possible=not question.gold.possible)
      yield gold(conflicts=(("甲", "乙"),))
    case "TOU":
      yield gold(groups=question.gold.groups[::-1])
    case "RR" | "EEU":
      yield gold(names=("无名氏",) * len(question.gold.names))
    case "SEC" | "LSEC":
      yield gold(anachronisms=())
      scene = Anachronism(question.gold.scene, "later")
      yield gold(anachronisms=(*question.gold.anachronisms, scene))
    case "TIC":
      yield gold(years=question.gold.years + 1)
      yield gold(with_year_zero=question.gold.with_year_zero + 2)
    case "TES":
      yield gold(correct=(question.gold.correct + 1) % 4)
  yield msgspec.structs.replace(question, question="？")
  first, *others = question.relations
  early = msgspec.structs.replace(first, start=first.start - 1)
  for relations in ((first, *others, first), (early, *others)):
    yield msgspec.structs.replace(question, relations=relations)


def test_checker_finds_every_wrong_gold(generated_questions, check):
  by_rule = {}
  for question in generated_questions:
    by_rule.setdefault((question.task, question.rule), question)
  assert len(by_rule) == 13
  for question in by_rule.values():
    check(question)
    for wrong in tampered(question):
      # The text need not hold the name in full.
      if wrong.question == "？" and (
        question.task == "EDD" or question.rule == "together"
      ):
        continue
      with pytest.raises(checks.CheckError, match=question.question_id):
        check(wrong)


def test_checker_finds_an_entity_in_two_splits(generated_questions):
  first = next(q for q in generated_questions if q.split == "train")
  with pytest.raises(checks.CheckError, match="is in train and in test"):
    checks.check_splits([first, msgspec.structs.replace(first, split="test")])


def test_years_of_both_conventions(generated_questions):
  differences = [q for q in generated_questions if q.task == "TIC"]
  crossing = [q for q in differences if len(q.gold.accepted) == 2]
  assert len(crossing) > 50
  for question in crossing:
    assert question.gold.with_year_zero > question.gold.years
  assert {q.gold.tolerance for q in differences} > {0, 10}


def test_games_have_the_published_sizes(generated_questions):
  found = generator.draw_games(generator.SEED)
  levels = [level for level in ("easy", "medium", "hard") for _ in range(20)]
  assert [game.level for game in found] == levels
  seats = [seat.entity_id for game in found for seat in game.seats]
  assert len(set(seats)) == len(seats) == 240
  trained = {
    relation.entity_id
    for question in generated_questions
    if question.split != "test"
    for relation in question.relations
  }
  assert trained.isdisjoint(seats)
  for game in found:
    labels = [seat.period for seat in game.seats]
    assert len(set(labels)) == generator.PLAYERS[game.level] == len(labels)
    ranked = sorted(labels, key=periods.LABELS.index)
    assert [ranked[rank - 1] for rank in game.ranks] == labels
  assert generator.draw_games(generator.SEED) == found


def test_built_games_are_read_back(tmp_path):
  builder = build.build_dataset("ctm/ito", tmp_path)
  assert ctm_dataset_builder.read_games(builder) == list(
    generator.draw_games(generator.SEED)
  )
  assert (builder.data_path / "audit.txt").read_text("utf-8").count("hard") == 1


def test_reading_what_is_not_built_says_how(tmp_path):
  builder = build.make_builder("ctm/qa", tmp_path)
  with pytest.raises(FileNotFoundError, match="build ctm/qa"):
    ctm_dataset_builder.read_questions(builder)


DUMMY = "data/ctm/dummy_data"


def test_release_without_files_says_what_is_needed(tmp_path, monkeypatch):
  monkeypatch.delenv("CTD_JAX_RELEASE", raising=False)
  with pytest.raises(SourceError, match="needs --sources=FOLDER"):
    build.build_dataset("ctm/release", tmp_path)
  with pytest.raises(SourceError, match="made from the fact tables"):
    build.build_dataset("ctm/ito", tmp_path, sources=DUMMY)


def test_a_scene_in_which_all_belongs_is_no_question(
  generated_questions, check
):
  script = next(
    q for q in generated_questions if q.task == LSEC and len(q.relations) == 15
  )
  names = script.gold.names
  emptied = msgspec.structs.replace(
    script,
    relations=tuple(r for r in script.relations if r.entity not in names),
    gold=msgspec.structs.replace(script.gold, anachronisms=()),
  )
  with pytest.raises(checks.CheckError, match="nothing is out of its time"):
    check(emptied)
