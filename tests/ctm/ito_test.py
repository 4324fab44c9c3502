"""The Ito game: rules kept, seats repaired, transcripts replayed."""

import asyncio
import json

import pytest

from ctd_jax.tasks.ctm import ito_game, ito_players, ito_report
from tests.ctm.ito_files import BOOK, FRUIT, instance

# The worked example of the paper: three seats, of which the second is the
# earliest; all are right in round 2, and the third was wrong in round 1.
EXAMPLE = instance(["唐", "先秦", "清"])
HINTS = (("橘子", "蓝莓", "桃子"), ("小说", "书签", "百科全书"))


def describe_all(state, items, *reason, **more):
  for number, item in enumerate(items):
    said = ito_game.Description(number, item, *reason, **more)
    state = ito_game.apply_action(state, said)
  return state


def rank_all(state, ranks):
  for number, rank in enumerate(ranks):
    state = ito_game.apply_action(state, ito_game.Ranking(number, rank))
  return state


def play_game(state, agents):
  return asyncio.run(ito_players.play_game(state, agents))


def play(said):
  """Plays a round whose first seat says given things."""
  oracle = ito_players.InformedAgent({"某1": "先秦", "某2": "清"})
  return play_game(
    ito_game.start_game(EXAMPLE, [FRUIT]), [said, oracle, oracle]
  )


def example():
  state = ito_game.start_game(EXAMPLE, [FRUIT, BOOK])
  return rank_all(describe_all(state, HINTS[0], "中间"), (2, 1, 2))


def finished():
  state = describe_all(example(), HINTS[1], "靠后")
  return ito_game.apply_action(state, ito_game.Ranking(2, 3))


def test_example_is_won_in_round_2_with_the_third_wrong_in_round_1():
  assert example().rounds[0].wrong_seats == (2,)
  won = finished()
  assert (won.phase, won.won_in) == (ito_game.WON, 2)
  assert [dict(past.ranks) for past in won.rounds] == [
    {0: 2, 1: 1, 2: 2},
    {0: 2, 1: 1, 2: 3},
  ]


def test_example_replays_from_its_transcript():
  turns = tuple({"replies": [], "complaints": []} for _ in range(10))
  text = json.dumps(
    ito_players.game_to_json(ito_players.FinishedGame(finished(), turns))
  )
  assert ito_players.replay_game(json.loads(text)).state == finished()
  with pytest.raises(ValueError, match="won_in is 1 .* 2 when replayed"):
    ito_players.replay_game(json.loads(text) | {"won_in": 1})
  forged = json.loads(text)
  forged["turns"][-1]["action"]["seat"] = 0
  with pytest.raises(ValueError, match="round 2: seat 0, but 2 is asked"):
    ito_players.replay_game(forged)


@pytest.mark.parametrize(
  ("action", "message"),
  [
    (ito_game.Ranking(0, 1), "a Ranking in the phase 'describe'"),
    (ito_game.Description(1, "桃子"), "seat 1, but 0 is asked"),
    (ito_game.Description(0, "书签"), "'书签' is not an item"),
  ],
)
def test_what_the_rules_do_not_ask_for(action, message):
  with pytest.raises(ValueError, match=f"ito-test, round 1: {message}"):
    ito_game.apply_action(ito_game.start_game(EXAMPLE, [FRUIT]), action)
  with pytest.raises(ValueError, match="phase 'won'"):
    ito_game.apply_action(finished(), ito_game.Ranking(0, 1))


def test_a_seat_sees_nothing_of_others_but_hints_and_verdicts():
  state = example()
  view = ito_game.make_view(state)
  assert (view.rounds[0].ranks, view.rounds[0].wrong_seats) == (((0, 2),), (2,))
  assert [said.item for said in view.rounds[0].descriptions] == [*HINTS[0]]
  silent = ito_game.start_game(EXAMPLE, [FRUIT, BOOK], feedback=False)
  silent = rank_all(describe_all(silent, HINTS[0], label="唐"), (2, 2, 2))
  seen = ito_game.make_view(silent).rounds
  assert seen[0].wrong_seats is None
  assert seen[1].ranks == ()
  assert [said.label for said in seen[0].descriptions] == ["唐", None, None]


def test_without_feedback_all_rank_again():
  state = ito_game.start_game(EXAMPLE, [FRUIT, BOOK], feedback=False)
  assert state.rounds[0].ranking_seats == (0, 1, 2)
  permutation = ito_players.Guesser("permutation", seed=3)
  state = play_game(state, [permutation] * 3).state
  assert state.won_in or all(
    past.ranking_seats == (0, 1, 2) for past in state.rounds
  )


def test_the_oracle_wins_at_once_and_knows_no_errors():
  for labels in (["清", "汉", "隋"], ["元", "明", "宋", "先秦", "五代"]):
    one = instance(labels)
    oracle = ito_players.InformedAgent({s.entity: s.period for s in one.seats})
    start = ito_game.start_game(one, [BOOK])
    state = play_game(start, [oracle] * len(labels)).state
    assert state.won_in == 1
    found = ito_report.count_errors([state])
    assert found == {"described": len(labels), "ranked": len(labels)}


def test_errors_are_told_apart():
  state = ito_game.start_game(EXAMPLE, [FRUIT])
  for said in (
    ito_game.Description(0, "蓝莓", label="先秦"),  # a Tang entity
    # The second item, not the first.
    ito_game.Description(1, "樱桃", label="先秦"),
    ito_game.Description(2, "西瓜", label="清"),
  ):
    state = ito_game.apply_action(state, said)
  state = rank_all(state, (1, 3, 3))  # by the items: 1, 2, 3
  found = ito_report.count_errors([state])
  errors = {"unknown": 1, "items": 1, "inferred": 1}
  assert found == errors | {"described": 3, "ranked": 3}
  assert state.rounds[0].wrong_seats == (0, 1)


class Said:
  """Says given things in turn."""

  def __init__(self, *texts):
    self.texts = list(texts)
    self.complaints = []

  async def reply(self, view, complaints):
    self.complaints.append(complaints)
    return self.texts.pop(0)


def describe(item, reason, **more):
  return json.dumps({"理由": reason, "主题实体": item, **more})


def test_replies_are_repaired_within_the_budget():
  good = describe("柚子", "大致在中间", 时期="唐朝")
  said = Said(
    "我不知道",
    describe("桔子", "中间"),
    f"好的：```json\n{good}\n```",
    '{"我的排序": "9"}',
    '{"我的排序": true}',
    '{"我的排序": 2}',
  )
  played = play(said)
  assert played.state.rounds[0].descriptions[0] == ito_game.Description(
    0, "柚子", "大致在中间", "唐"
  )
  assert len(played.turns[0]["complaints"]) == 2
  assert "主题实体 is '桔子', should be one of" in said.complaints[2][1]
  assert played.state.rounds[0].rank_of(0) == 2
  assert "我的排序 is True" in said.complaints[5][1]
  assert ito_players.replay_game(ito_players.game_to_json(played)) == played


def test_what_cannot_be_repaired_counts_as_nothing_said():
  said = Said(*["?"] * 6)
  state = play(said).state
  assert state.rounds[0].descriptions[0].item is None
  assert state.rounds[0].rank_of(0) is None
  assert 0 in state.rounds[0].wrong_seats
  assert ito_report.count_errors([state])["silent"] == 2


@pytest.mark.parametrize(
  ("reason", "given"),
  [
    ("李白生活在中間的時候", ["李白"]),
    ("大約是唐朝前後", ["唐朝"]),
    ("北宋的事", ["北宋"]),
    ("公元七百年左右", ["公元", "七百年"]),
    ("约在755年", ["755"]),
    ("八世紀", ["世纪"]),
    ("属于较早的一段，靠近开头", []),
    ("在最后几项里", []),
  ],
)
def test_leaks(reason, given):
  assert ito_game.find_leaks(reason, ["李白"]) == given


def test_a_leaking_reason_is_struck_out():
  said = Said(*[describe("柚子", "唐代的人")] * 3, '{"我的排序": 2}')
  played = play(said)
  assert played.turns[0]["leaked"]
  assert "must name no entity" in played.turns[0]["complaints"][0]
  assert played.state.rounds[0].descriptions[0] == ito_game.Description(
    0, "柚子", "xxx"
  )


LABELS = {n: ("先秦", "唐", "清", "汉", "明")[:n] for n in (3, 4, 5)}
GAMES = 400


@pytest.mark.slow
@pytest.mark.parametrize("seats", [3, 4, 5])
@pytest.mark.parametrize("agent", ito_report.WIN_PROBABILITIES)
def test_guessers_reach_their_chance(agent, seats):
  # Without feedback where none is used: guessing anew each round.
  feedback = agent != "permutation"
  themes = (FRUIT, BOOK) * 4
  states = []
  for number in range(GAMES):
    one = instance(LABELS[seats], f"g{number}")
    start = ito_game.start_game(one, themes, feedback)
    seated = [ito_players.Guesser(agent, seed=1)] * seats
    states.append(play_game(start, seated).state)
  for rounds in ito_report.CUTOFFS:
    expected = ito_report.WIN_PROBABILITIES[agent](seats, rounds)
    found = ito_report.pass_at_k(states, rounds)
    error = (expected * (1 - expected) / found.num_trials) ** 0.5
    assert abs(found.ratio - expected) <= 3.5 * error + 1e-9


def test_chance_lines():
  """Figures of the literature's gap, in percent; the last is by simulation."""
  lines = {
    "random": ([34.9, 11.2, 2.8], [88.7, 65.6, 39.9], 16.3, 64.7),
    "permutation": ([42.1, 12.0, 2.5], [76.7, 28.9, 6.5], 18.9, 37.4),
    "elimination": ([100, 31.6, 7.8], [100] * 3, 46.5, 100),
    "joint": ([100, 93.0, 74.6], [100] * 3, 89, 100),
  }
  for agent, (three, eight, *means) in lines.items():
    chance = ito_report.WIN_PROBABILITIES[agent]
    for rounds, wanted, mean in zip((3, 8), (three, eight), means, strict=True):
      found = [100 * chance(seats, rounds) for seats in (3, 4, 5)]
      slack = 0.7 if agent == "joint" else 0.06
      assert found == pytest.approx(wanted, abs=slack)
      assert sum(found) / 3 == pytest.approx(mean, abs=slack)


def test_games_that_are_too_short_have_no_pass_at():
  said = Said(*["?"] * 18)
  lost = play_game(ito_game.start_game(EXAMPLE, [FRUIT]), [said] * 3).state
  with pytest.raises(ValueError, match=r"had 1 rounds; Pass@3 needs 3"):
    ito_report.pass_at_k([lost], 3)


def test_seats_are_checked_against_the_periods():
  with pytest.raises(ValueError, match="each of another period"):
    ito_game.start_game(instance(["唐", "唐", "清"]), [FRUIT])
  right = instance(["唐", "清", "明"])
  forged = type(right)("x", "easy", right.seats, (1, 2, 3))
  with pytest.raises(ValueError, match=r"ranks \(1, 2, 3\), should be"):
    ito_game.start_game(forged, [FRUIT])
