"""Date a passage: when a text is of that need not be in the index, and why."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ctd_jax.chronology import reign_tables
from ctd_jax.index import asking
from ctd_jax.index.answers.answer import Answer, PassageDate
from ctd_jax.index.questions.question_types import PASSAGE
from ctd_jax.web import bar_chart, queries, rendering
from ctd_jax.web.answering import answer_in_time, index_of, settings_of
from ctd_jax.web.errors import PageError
from ctd_jax.web.queries import PageQuery
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)

_MAX_BARS = 160
_SHARE = 0.001  # of the probability that may lie beyond the ends of the figure
_MARGIN = 3  # years shown beyond it
_MAX_LINK = 2000  # characters of a passage that an address may have


@router.get("/date")
@router.get(rendering.SAVE_PREFIX + "/date")
async def show_passage(request: Request) -> Response:
  """Returns the page of a passage, or that for entering one."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  return await _show(request, query)


@router.post("/date")
async def show_long_passage(request: Request) -> Response:
  """Returns the same; a passage that an address can have is led there."""
  form = await request.form(max_files=0, max_fields=20)
  query = queries.parse_query(
    {name: value for name, value in form.items() if isinstance(value, str)},
    settings_of(request).max_question,
  )
  if len(query.text) <= _MAX_LINK:
    return RedirectResponse(f"/date?{query.encode()}", 303)
  return await _show(request, query)


async def _show(request: Request, query: PageQuery) -> Response:
  return await answer_in_time(
    request, _make_page, request, index_of(request), query
  )


def _make_page(
  request: Request, served: ServedIndex, query: PageQuery
) -> Response:
  answer = None
  if query.text.strip():
    answer = date_passage(served, query.text)
  pinned = dataclasses.replace(
    query, index=served.index.versions.index_sha256, language="", intent=""
  )
  has_link = len(query.text) <= _MAX_LINK
  return rendering.render_page(
    request,
    served,
    "passage.html",
    permalink=f"/date?{pinned.encode()}" if has_link else "/date",
    has_link=has_link,
    query=query,
    answer=answer,
    chart=answer and draw_years(answer.dates),
    titles=served.titles,
    max_length=settings_of(request).max_question,
    can_date=_dates_passages(served),
    refusal=_find_refusal(served),
  )


def date_passage(served: ServedIndex, text: str) -> Answer:
  """Returns when a passage is of.

  Args:
    served: the index.
    text: of the passage.

  Raises:
    PageError: 422, if the index dates no passages, or not this one.
  """
  if not _dates_passages(served):
    raise PageError(422, _find_refusal(served))
  question = asking.read_question(served.index, text, PASSAGE)
  with served.passage_lock:
    try:
      return asking.date_passage(served.index, question)
    except ValueError as error:
      raise PageError(
        422, "error.passage", {"problem": str(error)[:200]}
      ) from error


def _dates_passages(served: ServedIndex) -> bool:
  return served.index.manifest.passages is not None


def _find_refusal(served: ServedIndex) -> str:
  """Returns the message of an index that dates no passages."""
  is_wanted = served.index.manifest.is_for_passages
  return "error.sure" if is_wanted else "error.passages"


def draw_years(dates: PassageDate) -> Markup:
  """Returns the probabilities of the years as SVG."""
  name = reign_tables.format_common_era_year
  first, last = _find_shown(dates.curve)
  step = -(-(last - first) // _MAX_BARS)
  bars = []
  for start in range(first, last, step):
    stretch = dates.curve[start : min(start + step, last)]
    chance = sum(value for _, value in stretch)
    years = dict.fromkeys((name(stretch[0][0]), name(stretch[-1][0])))
    bars.append(
      bar_chart.ChartBar(
        title=f"{' – '.join(years)}: {chance:.3f}",
        label=name(stretch[0][0]),
        above=chance,
        css_class="credible",
      )
    )
  return bar_chart.draw_bars(bars, "p(year)", height=120)


def _find_shown(curve: tuple[tuple[int, float], ...]) -> tuple[int, int]:
  """Returns first place and end of the years that hold nearly all."""
  total = sum(value for _, value in curve)
  first, end, low, high = 0, len(curve), 0.0, 0.0
  while first < end - 1 and low + curve[first][1] <= _SHARE * total:
    low += curve[first][1]
    first += 1
  while end > first + 1 and high + curve[end - 1][1] <= _SHARE * total:
    high += curve[end - 1][1]
    end -= 1
  return max(first - _MARGIN, 0), min(end + _MARGIN, len(curve))
