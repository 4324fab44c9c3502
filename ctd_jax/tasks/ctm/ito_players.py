"""Players of the Ito game, and the play of a game with its transcript.

With published feedback blind guessing wins many games, so the share of games
that a model wins has to be compared with that of guessers. Draws depend only on
seed, game, seat and round: agents keep no state. Seats of one model share only
what is published, so every turn is a conversation of its own.

A transcript holds everything that was said and replays to the same result. An
invalid reply is asked for again, with the complaint, up to `repairs` times.
After that a leaking reason is masked and the item counts; without a valid item
the seat describes nothing; without a valid rank it is wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from ctd_jax.tasks.chat import Conversation
from ctd_jax.tasks.ctm import ito_game, prompts, replies
from ctd_jax.tasks.ctm.ito_game import DESCRIBE, Round, View
from ctd_jax_datasets.ctm import periods, schema
from ctd_jax_datasets.ctm.schema import Theme

_REASON = "按时间先后选的。"  # replies need one; no agent here reads it


def _make_turn_rng(
  seed: int | str, view: View, *, is_joint: bool = False
) -> random.Random:
  """Returns the generator of a turn, a joint one for all seats if so."""
  turn_key = (
    view.instance_id,
    "all" if is_joint else view.seat,
    len(view.rounds),
    view.phase,
  )
  return random.Random(":".join(map(str, (seed, *turn_key))))


def _format_description(item: str, label: str | None = None) -> str:
  fields = {ito_game.REASON_KEY: _REASON, ito_game.ITEM_KEY: item}
  if label is not None:
    fields[ito_game.LABEL_KEY] = label
  return json.dumps(fields, ensure_ascii=False)


def _format_ranking(rank: int) -> str:
  return json.dumps({ito_game.RANK_KEY: rank}, ensure_ascii=False)


def guess_any_rank(seed: int | str, view: View) -> int:
  """Returns a rank drawn uniformly, each time anew."""
  return _make_turn_rng(seed, view).randint(1, view.num_seats)


def guess_open_rank(seed: int | str, view: View) -> int:
  """Returns a rank drawn from those that no verdict has refuted."""
  open_ranks = set(range(1, view.num_seats + 1)) - view.refuted_ranks()
  return _make_turn_rng(seed, view).choice(sorted(open_ranks))


def guess_by_order(seed: int | str, view: View) -> int:
  """Returns the seat's place in a random order, anew in each round."""
  # The joint generator gives all seats the same order.
  order = list(range(1, view.num_seats + 1))
  _make_turn_rng(seed, view, is_joint=True).shuffle(order)
  return order[view.seat]


def guess_by_consistent_order(seed: int | str, view: View) -> int:
  """Returns the seat's place in an order consistent with all verdicts.

  Every seat computes the same orders, since draws are joint and verdicts are
  public.
  """
  consistent_orders = list(itertools.permutations(range(1, view.num_seats + 1)))
  # The draws of all earlier rounds are repeated, the last is the guess.
  for num_rounds, past_round in enumerate(view.rounds, start=1):
    past_view = dataclasses.replace(view, rounds=view.rounds[:num_rounds])
    order = _make_turn_rng(seed, past_view, is_joint=True).choice(
      consistent_orders
    )
    if past_round.wrong_seats is None:
      continue
    # An order stays if it explains which ranks were right and which wrong.
    consistent_orders = [
      candidate_order
      for candidate_order in consistent_orders
      if all(
        (rank == candidate_rank) == (seat not in past_round.wrong_seats)
        for seat, (rank, candidate_rank) in enumerate(
          zip(order, candidate_order, strict=True)
        )
      )
    ]
  return order[view.seat]


# Guessers know nothing about the entities. Name -> rule of (seed, view).
GUESSERS: Mapping[str, Callable[[int | str, View], int]] = {
  "random": guess_any_rank,
  "elimination": guess_open_rank,
  "permutation": guess_by_order,
  "joint": guess_by_consistent_order,
}


@dataclasses.dataclass(frozen=True)
class Guesser:
  """Agent that describes by a random item and guesses the rank."""

  name: str  # of its rule, in `GUESSERS`
  seed: int | str = 0  # seed of all draws

  async def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the JSON of the phase; complaints do not occur."""
    if view.phase == DESCRIBE:
      return _format_description(
        _make_turn_rng(self.seed, view).choice(view.theme.items)
      )
    return _format_ranking(GUESSERS[self.name](self.seed, view))


@dataclasses.dataclass(frozen=True)
class InformedAgent:
  """Agent that describes its believed period and ranks by the items."""

  labels: Mapping[str, str]  # entity -> its period
  # Probability to know the period of an entity; otherwise it believes in any
  # other one, for the whole game. 1 is the oracle.
  accuracy: float = 1.0
  seed: int | str = 0  # seed of all draws

  async def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the JSON that the phase asks for."""
    label = self._believed_label(view)
    if view.phase == DESCRIBE:
      return _format_description(
        view.theme.items[periods.get_period(label).index], label
      )
    return _format_ranking(self._infer_rank(view))

  def _believed_label(self, view: View) -> str:
    """Returns the period that the seat believes in, the same in all rounds."""
    true_label = self.labels[view.entity]
    rng = random.Random(f"{self.seed}:{view.instance_id}:{view.entity}")
    if rng.random() < self.accuracy:
      return true_label
    return rng.choice(
      [label for label in periods.LABELS if label != true_label]
    )

  def _infer_rank(self, view: View) -> int:
    """Returns the rank by the items, or the nearest one not refuted."""
    items = view.theme.items
    # Ties by seat.
    order = sorted(
      (items.index(description.item), description.seat)
      for description in view.rounds[-1].descriptions
      if description.item is not None
    )
    seats = [seat for _, seat in order]
    # Rank 1 if the seat itself gave no item.
    implied_rank = seats.index(view.seat) + 1 if view.seat in seats else 1
    open_ranks = set(range(1, view.num_seats + 1)) - view.refuted_ranks()
    return min(
      open_ranks or {implied_rank},
      key=lambda rank: (abs(rank - implied_rank), rank),
    )


_RULES_PROMPT = (
  "你在玩“时间线”游戏。{seats}名玩家各持一个人、物或事，分属不同时期，目标是让每个人"
  "说对自己按时间先后的名次（1为最早）。时期有十个，从早到晚是：{timeline}。每轮有"
  "一个主题，主题里的十样东西从小到大依次代表十个时期。你是{seat}号玩家。\n"
  "各主题的次序：\n{themes}"
)
_DESCRIBE_PROMPT = (
  "本轮主题是{theme}，可选：{items}。你持有“{entity}”。先判断它的时期，再选出代表"
  "该时期的那一样。理由只用一句话，用“开头、较早、中间、较晚、末尾”之类的说法"
  f"提示位置，不得出现名称、朝代、年份。只输出JSON：{{{{“{ito_game.ANALYSIS_KEY}”：你的"
  f"推理，其中把名称和时期写成xxx，“{ito_game.LABEL_KEY}”：你判断的时期（不会公开），"
  f"“{ito_game.REASON_KEY}”：一句话，“{ito_game.ITEM_KEY}”：所选的一样}}}}。"
)
_RANK_PROMPT = (
  "根据本轮所有人选的东西，判断你的名次。只输出JSON："
  f"{{{{“{ito_game.ANALYSIS_KEY}”：你的推理，“{ito_game.RANK_KEY}”：1到{{seats}}的整数}}}}。"
)


@dataclasses.dataclass(frozen=True)
class ModelAgent:
  """Agent that asks a chat model for every turn."""

  # Asks the model, and returns its reply without thoughts.
  ask: Callable[[Conversation], Awaitable[str]]
  # All themes, which the prompt lists with their order.
  themes: tuple[Theme, ...]

  async def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the reply of the model to the view and the complaints."""
    rules = _RULES_PROMPT.format(
      seats=view.num_seats,
      seat=view.seat + 1,
      timeline=prompts.TIMELINE,
      themes="\n".join(
        f"{theme.name}（{theme.low}到{theme.high}）：{'＜'.join(theme.items)}"
        for theme in self.themes
      ),
    )
    template = _DESCRIBE_PROMPT if view.phase == DESCRIBE else _RANK_PROMPT
    request = template.format(
      theme=view.theme.name,
      # Sorted by code point: the order in time is in the rules only.
      items="、".join(sorted(view.theme.items)),
      entity=view.entity,
      seats=view.num_seats,
    )
    history = [
      line
      for number, past_round in enumerate(view.rounds, start=1)
      for line in _format_round(number, past_round, view)
    ]
    user_lines = ["\n".join(history), request]
    user_lines += [f"你刚才的回复不合要求：{problem}" for problem in complaints]
    return await self.ask((rules, "\n".join(user_lines)))


def _format_round(number: int, past_round: Round, view: View) -> list[str]:
  """Returns the lines of one round; players are numbered from 1."""
  lines = [f"第{number}轮，主题{past_round.theme.name}："]
  for description in past_round.descriptions:
    item = description.item or "（没有说）"
    lines.append(f"{description.seat + 1}号玩家：{description.reason} {item}")
  rank = past_round.rank_of(view.seat)
  if rank is not None and number < len(view.rounds):
    lines.append(f"你说的名次是{rank}。")
  if past_round.wrong_seats is not None:
    wrong_seats = "、".join(f"{seat + 1}号" for seat in past_round.wrong_seats)
    lines.append(
      f"裁判：名次错的是{wrong_seats}，其余都对。"
      if wrong_seats
      else "裁判：全对。"
    )
  return lines


class Agent(Protocol):
  """Player of a seat; asynchronous, so that many games ask a model at once."""

  async def reply(self, view: ito_game.View, complaints: Sequence[str]) -> str:
    """Returns the JSON of the phase, see `schema`.

    Args:
      complaints: problems of the earlier replies of this turn.
    """


@dataclasses.dataclass(frozen=True)
class FinishedGame:
  """Game that is over."""

  state: ito_game.State
  # For each action {"replies": texts, "complaints": their problems, "leaked":
  # whether a reason was masked}.
  turns: tuple[dict[str, Any], ...]


async def play_game(
  state: ito_game.State,
  agents: Sequence[Agent],
  repairs: int = 2,
  extra_names: Collection[str] = (),
) -> FinishedGame:
  """Returns the game after the last round, or after it was won.

  Args:
    agents: one for each seat; the same object may take several.
    extra_names: names that reasons must not contain, besides the entities.
  """
  seats = state.instance.seats
  # A hint must not name the own entity, nor that of another seat.
  forbidden_names = {*(seat.entity for seat in seats), *extra_names}
  turns = []
  while state.phase in (ito_game.DESCRIBE, ito_game.RANK):
    action, turn = await _play_turn(
      state, agents[state.next_seat], repairs, forbidden_names
    )
    state = ito_game.apply_action(state, action)
    turns.append(turn)
  return FinishedGame(state, tuple(turns))


async def _play_turn(
  state: ito_game.State,
  agent: Agent,
  repairs: int,
  forbidden_names: Collection[str],
) -> tuple[ito_game.Description | ito_game.Ranking, dict[str, Any]]:
  """Returns the action of the next seat and the record of its turn."""
  view = ito_game.make_view(state)
  turn: dict[str, Any] = {"replies": [], "complaints": [], "leaked": False}
  leaking_reply = None  # the last one; its item is valid
  for _ in range(repairs + 1):
    text = await agent.reply(view, tuple(turn["complaints"]))
    turn["replies"].append(text)
    try:
      return ito_game.read_reply(text, view, forbidden_names), turn
    except ito_game.ReplyError as error:
      turn["complaints"].append(str(error))
      leaking_reply = (
        text if isinstance(error, ito_game.LeakError) else leaking_reply
      )
  # The budget of repairs is spent.
  if view.phase == ito_game.RANK:
    return ito_game.Ranking(view.seat, None), turn
  if leaking_reply is None:
    return ito_game.Description(view.seat, None), turn
  turn["leaked"] = True
  masked = json.dumps(
    {**replies.parse_json_object(leaking_reply), ito_game.REASON_KEY: "xxx"}
  )
  return ito_game.read_description(masked, view, ()), turn


def game_to_json(finished_game: FinishedGame) -> dict[str, Any]:
  """Returns the transcript of a game."""
  actions = [
    dataclasses.asdict(action)
    for past_round in finished_game.state.rounds
    for action in (
      *past_round.descriptions,
      *(
        ito_game.Ranking(seat, rank)
        # Kept ranks of earlier rounds are not actions.
        for seat, rank in past_round.ranks
        if seat in past_round.ranking_seats
      ),
    )
  ]
  return {
    "instance": schema.to_json(finished_game.state.instance),
    "themes": [schema.to_json(theme) for theme in finished_game.state.themes],
    "feedback": finished_game.state.feedback,
    "turns": [
      {**turn, "action": action}
      for turn, action in zip(finished_game.turns, actions, strict=True)
    ],
    "wrong": [
      list(past_round.wrong_seats or ())
      for past_round in finished_game.state.rounds
    ],
    "won_in": finished_game.state.won_in,
  }


def replay_game(transcript: Mapping[str, Any]) -> FinishedGame:
  """Returns the game of a transcript from `game_to_json`, replayed by the
  rules.

  Raises:
    ValueError: if a round breaks the rules; the message names game and round.
  """
  instance = schema.instance_from_json(transcript["instance"])
  themes = [schema.theme_from_json(theme) for theme in transcript["themes"]]
  state = ito_game.start_game(instance, themes, transcript["feedback"])
  turns = []
  for turn in transcript["turns"]:
    fields = turn["action"]
    action_class = (
      ito_game.Ranking if "rank" in fields else ito_game.Description
    )
    state = ito_game.apply_action(state, action_class(**fields))
    # The action is in the state.
    turns.append({key: turn[key] for key in turn if key != "action"})
  finished_game = FinishedGame(state, tuple(turns))
  replayed_transcript = game_to_json(finished_game)
  for key in ("wrong", "won_in"):
    if replayed_transcript[key] != transcript[key]:
      raise ValueError(
        f"game {instance.instance_id}: {key} is {transcript[key]} in the "
        f"transcript, {replayed_transcript[key]} when replayed"
      )
  return finished_game
