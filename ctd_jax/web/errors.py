"""Errors as pages, and as JSON below /api.

A page says what is wrong and what would be right, in the language of the
reader. Nothing that went wrong inside is told; it is logged under a number
that the page has.
"""

from __future__ import annotations

import http
import secrets
from typing import Any

from absl import logging
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from ctd_jax.web import messages

PROBLEM = "problem"  # value that the index says, in English
# Those that have a text of their own.
EXPLAINED = (400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 503)


class PageError(Exception):
  """What is wrong with a request.

  Attributes:
    status: of HTTP.
    message: name of the message about it; "" for that of the status.
    values: of the message.
  """

  def __init__(
    self,
    status: int,
    message: str = "",
    values: dict[str, Any] | None = None,
  ):
    super().__init__(f"{status} {message}")
    self.status = status
    self.message = message
    self.values = values or {}


class NoIndexError(Exception):
  """There is nothing to be shown: the index is yet to be built."""


def add_handlers(app: FastAPI) -> None:
  """Has an application answer errors with pages."""
  app.add_exception_handler(PageError, answer_page_error)
  app.add_exception_handler(NoIndexError, _answer_no_index)
  app.add_exception_handler(HTTPException, _answer_http_error)
  app.add_exception_handler(RequestValidationError, _answer_validation_error)
  app.add_exception_handler(ValueError, _answer_value_error)
  app.add_exception_handler(PermissionError, _answer_permission_error)
  app.add_exception_handler(Exception, _answer_failure)


def make_error_response(
  request: Request, status: int, detail: str = "", number: str = ""
) -> Response:
  """Returns the answer to a request that failed.

  Args:
    request: that failed.
    status: of HTTP.
    detail: what is wrong and would be right.
    number: under which the cause is logged.
  """
  if request.url.path.startswith("/api/"):
    return JSONResponse(
      {
        "error": {
          "status": status,
          "title": http.HTTPStatus(status).phrase,
          "detail": detail,
          "number": number,
        }
      },
      status,
    )
  from ctd_jax.web import rendering  # a page of errors needs no index

  return rendering.render_error(
    request, status if status in EXPLAINED else 400, status, detail, number
  )


def answer_page_error(request: Request, error: PageError) -> Response:
  """Returns the answer to a request that was refused with a message.

  Args:
    request: that failed.
    error: what is wrong with it.
  """
  language = _find_language(request)
  values = dict(error.values)
  if PROBLEM in values:
    values[PROBLEM] = _translate(request, values[PROBLEM])
  detail = ""
  if error.message:
    detail = messages.translate(language, error.message, **values)
  return make_error_response(request, error.status, detail)


def _find_language(request: Request) -> str:
  """Returns the language of the answer; that of programs is English."""
  if request.url.path.startswith("/api/"):
    return messages.ENGLISH
  from ctd_jax.web import rendering

  return rendering.find_language(request)


def _translate(request: Request, problem: str) -> str:
  """Returns what the index says of a problem in the language of a page."""
  from ctd_jax.web import reason_notes

  return reason_notes.translate_note(_find_language(request), problem)


def _answer_no_index(request: Request, _: NoIndexError) -> Response:
  """Leads to where a text can be brought."""
  if request.url.path.startswith("/api/"):
    return make_error_response(request, 404, "the index is yet to be built")
  from ctd_jax.web import rendering

  return RedirectResponse(rendering.PageLinks(request)("/upload"), 303)


def _answer_http_error(request: Request, error: HTTPException) -> Response:
  return make_error_response(request, error.status_code)


def _answer_validation_error(
  request: Request, error: RequestValidationError
) -> Response:
  problems = "; ".join(
    f"{'.'.join(map(str, item['loc']))}: {item['msg']}"
    for item in error.errors()[:5]
  )
  problems = _translate(request, problems)
  is_path = any(item["loc"][0] == "path" for item in error.errors())
  return make_error_response(request, 404 if is_path else 422, problems)


def _answer_value_error(request: Request, error: ValueError) -> Response:
  """Answers what the index says of a question that it cannot read."""
  from ctd_jax.index.questions.question_types import QuestionError

  if isinstance(error, QuestionError):
    return make_error_response(request, 422, _translate(request, str(error)))
  return _answer_failure(request, error)


def _answer_permission_error(
  request: Request, error: PermissionError
) -> Response:
  """Answers a change that the server may not write down."""
  logging.error("%s %s: %s", request.method, request.url.path, error)
  return answer_page_error(request, PageError(403, "error.unwritable"))


def _answer_failure(request: Request, error: Exception) -> Response:
  number = secrets.token_hex(4)
  logging.error(
    "error %s: %s %s", number, request.method, request.url.path, exc_info=error
  )
  return make_error_response(request, 500, "", number)
