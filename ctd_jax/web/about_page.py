"""About: works of the index, versions, and the page for the token."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ctd_jax.index.answers import record_answers
from ctd_jax.web import rendering, security
from ctd_jax.web.answering import answer_in_time, index_of, settings_of
from ctd_jax.web.errors import PageError
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)


@router.get("/about")
@router.get(rendering.SAVE_PREFIX + "/about")
async def show_about(request: Request) -> Response:
  """Returns the page about the index."""
  return await answer_in_time(request, _make_page, request, index_of(request))


def _make_page(request: Request, served: ServedIndex) -> Response:
  index = served.index
  works = []
  for work in index.works:
    span = None
    if work.work_id in served.coverage:
      first, last = served.coverage[work.work_id]
      span = record_answers.make_span(index, first, last, work.printed_reigns)
    works.append({"work": work, "span": span})
  return rendering.render_page(
    request,
    served,
    "about.html",
    permalink=f"/about?index={index.versions.index_sha256}",
    works=works,
    num_records=index.num_records,
    calendar=record_answers.make_span(index, 0, len(index.calendar) - 1),
    num_months=len(index.calendar),
    calendar_name=index.calendar.timeline.name,
  )


@router.post(security.TOKEN_PATH)
async def take_token(request: Request) -> Response:
  """Has the browser keep the token, if it is the right one.

  Raises:
    PageError: 401, if it is not.
  """
  settings = settings_of(request)
  form = await request.form(max_files=0, max_fields=4)
  given = form.get("token", "")
  if settings.token is None or not isinstance(given, str):
    raise PageError(404)
  if not security.is_same_token(given.strip(), settings.token):
    raise PageError(401, "error.token")
  response = RedirectResponse("/", 303)
  response.set_cookie(
    security.TOKEN_COOKIE,
    security.hash_token(settings.token),
    httponly=True,
    samesite="strict",
    secure=request.url.scheme == "https",
  )
  return response
