"""Commentary finds its place by the text that it is printed with."""

import random

import pytest

from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import text_alignment


def _parts(draw):
  letters = [chr(0x4E00 + number) for number in range(600)]
  for month in range(1, 13):
    for _ in range(4):
      text = "".join(draw.choices(letters, k=draw.randrange(6, 40)))
      yield text, TimeKey(1, 1, month)


@pytest.mark.parametrize("seed", range(5))
def test_notes_and_garbled_characters_do_no_harm(seed):
  draw = random.Random(seed)
  parts = list(_parts(draw))
  anchor = text_alignment.Anchor.from_segments(parts)
  text, expected, length = [], [], 0
  for number, (part, _) in enumerate(parts):
    printed = "".join(
      "誤" if draw.random() < 0.03 else character for character in part
    )
    note = "注" + "".join(chr(0x7000 + draw.randrange(900)) for _ in range(9))
    text += [printed, note]
    length += len(printed)
    expected.append((length, number))
    length += len(note)
  aligned = text_alignment.Alignment(anchor, "".join(text))
  places = [aligned.match_at(position) for position, _ in expected]
  right = [
    place.segment_index == number
    for place, (_, number) in zip(places, expected, strict=True)
  ]
  assert sum(right) / len(right) > 0.95
  for place in places:
    assert place.key == anchor.keys[place.segment_index]
    assert 0 < place.score <= 1
  assert sum(place.score for place in places) / len(places) > 0.8
  for (here, there), (next_here, next_there) in zip(
    aligned.ties, aligned.ties[1:], strict=False
  ):
    assert here < next_here
    assert there < next_there


def test_score_is_the_share_of_the_clause_that_is_tied():
  anchor = text_alignment.Anchor.from_segments(
    [("公會泠侯于桃丘以謀嶧故而還", TimeKey(1, 1, 1))]
  )
  clean = text_alignment.Alignment(
    anchor, text_alignment.fold_text(anchor.text)
  )
  assert clean.match_at(13).score == 1
  garbled = text_alignment.Alignment(anchor, "公會泠侯於桃丘以謀嶧訛訛訛")
  assert garbled.match_at(13).score == pytest.approx(9 / 12)


def test_before_any_tie_no_place_is_known():
  anchor = text_alignment.Anchor.from_segments(
    [("公會泠侯于桃丘", TimeKey(1, 1, 1))]
  )
  assert text_alignment.Alignment(anchor, "嶧人來盟").match_at(4) is None
