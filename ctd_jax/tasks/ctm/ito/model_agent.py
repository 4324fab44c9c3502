"""Chat model as a player of the Ito game.

Seats of one model share only what is published, so every turn is a conversation
of its own, made from the view of the seat. The wording is this project's own;
the keys of the JSON are the paper's except 时期, the period in which the seat
believes, which is never published.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctd_jax.llm.endpoint import make_conversation
from ctd_jax.tasks.ctm import prompts
from ctd_jax.tasks.ctm.ito import schema
from ctd_jax.tasks.ctm.ito.game import DESCRIBE, Round
from ctd_jax.tasks.ctm.ito.views import View
from ctd_jax_datasets.ctm.game_schema import Theme

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

_RULES_PROMPT = (
  "你在玩“时间线”游戏。{seats}名玩家各持一个人、物或事，分属不同时期，目标是让每个人"
  "说对自己按时间先后的名次（1为最早）。时期有十个，从早到晚是：{timeline}。每轮有"
  "一个主题，主题里的十样东西从小到大依次代表十个时期。你是{seat}号玩家。\n"
  "各主题的次序：\n{themes}"
)
_DESCRIBE_PROMPT = (
  "本轮主题是{theme}，可选：{items}。你持有“{entity}”。先判断它的时期，再选出代表"
  "该时期的那一样。理由只用一句话，用“开头、较早、中间、较晚、末尾”之类的说法"
  f"提示位置，不得出现名称、朝代、年份。只输出JSON：{{{{“{schema.ANALYSIS}”：你的"
  f"推理，其中把名称和时期写成xxx，“{schema.LABEL}”：你判断的时期（不会公开），"
  f"“{schema.REASON}”：一句话，“{schema.ITEM}”：所选的一样}}}}。"
)
_RANK_PROMPT = (
  "根据本轮所有人选的东西，判断你的名次。只输出JSON："
  f"{{{{“{schema.ANALYSIS}”：你的推理，“{schema.RANK}”：1到{{seats}}的整数}}}}。"
)


@dataclasses.dataclass(frozen=True)
class ModelAgent:
  """Agent that asks a chat model for every turn.

  Attributes:
    chat: client of the model.
    themes: all themes, which the prompt lists with their order.
    sample: number of the draw, for games played more than once.
  """

  chat: ChatClient
  themes: tuple[Theme, ...]
  sample: int = 0

  def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
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
    user_lines = [_format_history(view), request]
    user_lines += [f"你刚才的回复不合要求：{problem}" for problem in complaints]
    messages = make_conversation(rules, "\n".join(user_lines))
    return self.chat.ask(messages, self.sample).text


def _format_history(view: View) -> str:
  """Returns the public history, with the seat's own earlier ranks."""
  lines = []
  for number, past_round in enumerate(view.rounds, start=1):
    lines += _format_round(number, past_round, view)
  return "\n".join(lines)


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
