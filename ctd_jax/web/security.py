"""Checks before a request is read: host, origin, rate and token.

The Host header is checked against DNS rebinding: another site could point its
name at this machine and read the index through a reader's browser.
"""

from __future__ import annotations

import hmac
import ipaddress
import re

import limits
from absl import logging
from fastapi import APIRouter
from limits import storage, strategies
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctd_jax.web import rendering, requests
from ctd_jax.web.requests import SAFE_METHODS, PageError
from ctd_jax.web.settings import WebSettings

TOKEN_COOKIE = "ctd_token"
TOKEN_PATH = "/token"
STATIC_PATH = "/static/"
POLICY = "; ".join(
  (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src data:",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  )
)
_PORT = re.compile(r"(?<=[^:]):\d*$")
# Wrong tokens that are compared; the rest is refused.
_WRONG_PER_CLIENT = limits.RateLimitItemPerMinute(10)
_WRONG_IN_ALL = limits.RateLimitItemPerMinute(100)
router = APIRouter(include_in_schema=False)
_HEADERS = {
  "Content-Security-Policy": POLICY,
  "X-Content-Type-Options": "nosniff",
  # With no-referrer a browser would not say where a form comes from.
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class HeaderWriter:
  """Adds headers that forbid what our pages never do."""

  def __init__(self, app: ASGIApp):
    self._app = app

  async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers as the application does, with the headers."""

    async def send_with_headers(message: Message) -> None:
      if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        for name, value in _HEADERS.items():
          headers.setdefault(name, value)
        if not scope["path"].startswith(STATIC_PATH):
          headers.setdefault("Cache-Control", "no-store")
        cookie = requests.make_cookie(Request(scope))
        if cookie:
          headers.append("Set-Cookie", cookie)
      await send(message)

    await self._app(scope, receive, send_with_headers)


class RequestGuard:
  """Refuses foreign host names, too many requests, and missing tokens."""

  def __init__(
    self, app: ASGIApp, settings: WebSettings, token_check: TokenCheck
  ):
    self._app = app
    self._settings = settings
    self._token_check = token_check
    self._hosts = {name.strip("[]").lower() for name in settings.allowed_hosts}
    self._host_names = frozenset(name.lower() for name in settings.host_names)
    self._rate = (
      limits.RateLimitItemPerMinute(settings.rate) if settings.rate else None
    )
    self._limiter = strategies.SlidingWindowCounterRateLimiter(
      storage.MemoryStorage()
    )

  async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers as the application does, or refuses."""
    if scope["type"] != "http":
      await self._app(scope, receive, send)
      return
    request = Request(scope, receive)
    refusal = self._find_refusal(request)
    # FastAPI would also refuse a long body, but before the headers.
    max_body = self._settings.max_body_of(scope["path"])
    await (refusal or self._app)(scope, _limit_body(receive, max_body), send)

  def _find_refusal(self, request: Request) -> Response | None:
    host = request.headers.get("host", "")
    name = _strip_port(host)
    # Not of `request.url`, which some versions of Starlette make from the Host.
    path = request.scope["path"]
    # Only a name can be made to mean another machine, an address cannot.
    if name not in self._hosts and not _is_address(name):
      return rendering.make_error_response(
        request, 400, f"Host: {host[:80]!r}; --host_names=NAME allows a name"
      )
    if {"content-length", "transfer-encoding"} <= set(request.headers.keys()):
      # A proxy may take the other one, and the rest for another request.
      response = rendering.make_error_response(request, 400)
      response.headers["Connection"] = "close"
      return response
    if path.startswith(STATIC_PATH):
      return None
    if requests.is_from_elsewhere(
      request, self._host_names
    ) and not requests.follows_link(request):
      return rendering.answer_error(request, PageError(403, "error.elsewhere"))
    length = request.headers.get("content-length", "0")
    max_body = self._settings.max_body_of(path)
    if not length.isdecimal() or int(length) > max_body:
      return rendering.make_error_response(
        request, 413, f"≤ {max_body:,} bytes"
      )
    client = request.client.host if request.client else ""
    if self._rate and not self._limiter.hit(self._rate, client):
      return _wait_a_minute(rendering.make_error_response(request, 429))
    try:
      is_let_in = path == TOKEN_PATH or self._token_check.is_let_in(request)
    except PageError as error:
      return _wait_a_minute(rendering.answer_error(request, error))
    if not is_let_in:
      return rendering.make_error_response(request, 401)
    if request.method in SAFE_METHODS:
      return None
    is_change = path not in requests.READING_PATHS
    if self._settings.read_only and is_change:
      return rendering.answer_error(request, PageError(403, "error.read_only"))
    return None


def _wait_a_minute(response: Response) -> Response:
  response.headers["Retry-After"] = "60"
  return response


def _limit_body(receive: Receive, max_body: int) -> Receive:
  """Returns a receiver that refuses a body that is too large."""
  num_bytes = 0

  async def receive_counted() -> Message:
    nonlocal num_bytes
    message = await receive()
    num_bytes += len(message.get("body", b""))
    if num_bytes > max_body:
      raise HTTPException(413)
    return message

  return receive_counted


def _strip_port(host: str) -> str:
  """Returns the name in a Host header, without port and brackets."""
  host = _PORT.sub("", host.lower())
  if host.startswith("[") and host.endswith("]"):
    return host[1:-1]
  return host


def _is_address(name: str) -> bool:
  try:
    ipaddress.ip_address(name)
  except ValueError:
    return False
  return True


class TokenCheck:
  """Compares what readers give with the token; guesses are limited and logged.

  Behind a proxy on this machine, and where somebody makes addresses up, many
  clients are one or one is many: there is a limit for all, too.
  """

  def __init__(self, settings: WebSettings):
    self._settings = settings
    self._limiter = strategies.SlidingWindowCounterRateLimiter(
      storage.MemoryStorage()
    )

  def is_right(self, given: str, request: HTTPConnection) -> bool:
    """Whether a reader gives the token.

    Raises:
      PageError: 429, right or not, if too many were wrong in the last minute.
    """
    client = request.client.host if request.client else ""
    limits_of = ((_WRONG_PER_CLIENT, client), (_WRONG_IN_ALL, "all"))
    if not all(self._limiter.test(limit, who) for limit, who in limits_of):
      raise PageError(429)
    token = self._settings.token or ""
    if hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
      return True
    for limit, who in limits_of:
      self._limiter.hit(limit, who)
    logging.warning("wrong token from %s", client or "an unknown client")
    return False

  def is_let_in(self, request: HTTPConnection) -> bool:
    """Whether a request has the token, or the cookie that it was given for it.

    Raises:
      PageError: 429, see `is_right`.
    """
    if self._settings.token is None:
      return True
    cookie = request.cookies.get(TOKEN_COOKIE, "").encode("utf-8", "replace")
    # Nobody guesses it, so readers who are in stay in while others guess.
    if hmac.compare_digest(cookie, make_cookie_value(self._settings).encode()):
      return True
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and self.is_right(given.strip(), request)


def make_cookie_value(settings: WebSettings) -> str:
  """Returns what a browser keeps instead of the token."""
  secret, token = requests.load_secret(settings), settings.token or ""
  return hmac.digest(secret, token.encode(), "sha256").hex()


@router.get(TOKEN_PATH)
async def follow_link(request: Request, token: str = "") -> Response:
  """Lets in whoever opens the link that the server has printed."""
  return _let_in(request, token)


@router.post(TOKEN_PATH)
async def take_token(request: Request) -> Response:
  """Sets the token cookie if the token is right."""
  form = await request.form(max_files=0, max_fields=4)
  return _let_in(request, form.get("token", ""))


def _let_in(request: Request, given: object) -> Response:
  settings = requests.settings_of(request)
  if settings.token is None or not isinstance(given, str):
    raise PageError(404)
  check: TokenCheck = request.app.state.token_check
  if not check.is_right(given.strip(), request):
    raise PageError(401, "error.token")
  response = RedirectResponse("/", 303)
  response.set_cookie(
    TOKEN_COOKIE,
    make_cookie_value(settings),
    httponly=True,
    # With "strict" a link on another site would ask for the token again.
    samesite="lax",
    secure=request.url.scheme == "https",
  )
  return response
