"""Pages from templates.

Texts of a corpus are escaped like any other value, and their control characters
shown. A page that is saved is whole in itself: its style inside, its links to
the server that made it.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
import markupsafe
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ctd_jax.chronology import reign_tables
from ctd_jax.index import calendars
from ctd_jax.index.answers import answer_phrases, page
from ctd_jax.web import forms, messages, reason_notes, record_addresses
from ctd_jax.web.answering import settings_of
from ctd_jax.web.served_index import ServedIndex

SAVE_PREFIX = "/save"
_SAVED_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"
_MAX_LANGUAGE_TAGS = 200  # characters of a header that are read


def find_language(request: Request) -> str:
  """Returns the language that a page is asked for in."""
  requested = request.query_params.get("lang", "")
  return messages.choose_language(
    requested if requested in messages.LANGUAGES else "",
    request.headers.get("accept-language", "")[:_MAX_LANGUAGE_TAGS],
  )


def render_page(
  request: Request,
  served: ServedIndex,
  template: str,
  permalink: str,
  rows: Collection[int] = (),
  **values: Any,
) -> Response:
  """Returns a page about an index.

  Args:
    request: of the page.
    served: the index.
    template: name of the template.
    permalink: address of the page, with the hash of the index.
    rows: of the records that it leads to, as far as they are known.
    **values: of the template.
  """
  links = PageLinks(request, served, rows)
  is_saved = links.is_saved
  content = _render(
    request,
    template,
    link=links,
    saved_style=_load_style() if is_saved else "",
    versions=served.index.versions,
    permalink=str(request.base_url).rstrip("/") + permalink,
    save_link=SAVE_PREFIX + permalink,
    other_index=_find_other_index(request, served),
    **values,
  )
  headers = {}
  if is_saved:
    headers = {
      "Content-Disposition": 'attachment; filename="ctd-page.html"',
      "Content-Security-Policy": _SAVED_POLICY,
    }
  return HTMLResponse(content, headers=headers)


def render_error(
  request: Request, kind: int, status: int, detail: str, number: str
) -> Response:
  """Returns a page about an error.

  Args:
    request: that failed.
    kind: status that the text is about.
    status: of HTTP.
    detail: what is wrong and would be right.
    number: under which the cause is logged.
  """
  content = _render(
    request,
    "error.html",
    link=PageLinks(request),
    saved_style="",
    kind=kind,
    status=status,
    detail=detail,
    number=number,
    question=request.query_params.get("q", "")
    if request.url.path == "/" and status == 422
    else "",
  )
  return HTMLResponse(content, status)


def render_plain(request: Request, template: str, **values: Any) -> str:
  """Returns a page that shows nothing of an index.

  Args:
    request: of the page.
    template: name of the template.
    **values: of the template.
  """
  return _render(
    request,
    template,
    link=PageLinks(request),
    saved_style="",
    **values,
  )


class PageLinks:
  """Addresses of the pages that a page leads to.

  Attributes:
    language: that the address of the page asks for; "" if it asks for none.
    is_saved: whether the page is to be read away from the server.
  """

  def __init__(
    self,
    request: Request,
    served: ServedIndex | None = None,
    rows: Collection[int] = (),
  ):
    """Keeps what all links of a page have in common.

    Args:
      request: of the page.
      served: whose records it leads to; None of a page that leads to none.
      rows: of these records, as far as they are known.
    """
    self._served = served
    self._names = (
      record_addresses.name_records(served.index, rows) if rows else {}
    )
    language = request.query_params.get("lang", "")
    self.language = language if language in messages.LANGUAGES else ""
    self.is_saved = request.url.path.startswith(f"{SAVE_PREFIX}/")
    self._base = str(request.base_url).rstrip("/") if self.is_saved else ""

  def record(self, row: int) -> str:
    """Returns the address of a record, which lasts.

    Args:
      row: of the record.
    """
    if row not in self._names:
      self._names[row] = record_addresses.name_record(self._served.index, row)
    names = self._names[row]
    return self(record_addresses.make_record_path(*names))

  def __call__(
    self,
    path: str,
    parameters: str | dict[str, Any] = "",
    **more_parameters: Any,
  ) -> str:
    """Returns an address below the server's, in the language of the page.

    Args:
      path: of the page.
      parameters: by name, or as `PageQuery.encode` writes them.
      **more_parameters: likewise.
    """
    if isinstance(parameters, dict):
      parameters = urlencode(parameters, doseq=True)
    if self.language and "lang=" not in parameters:
      more_parameters.setdefault("lang", self.language)
    parts = [part for part in (parameters, urlencode(more_parameters)) if part]
    return f"{self._base}{path}{'?' if parts else ''}{'&'.join(parts)}"


def _render(request: Request, template: str, **values: Any) -> str:
  language = find_language(request)
  return (
    _environment()
    .get_template(template)
    .render(
      request=request,
      language=language,
      t=messages.bind_language(language),
      term=functools.partial(messages.translate_term, language),
      note=functools.partial(reason_notes.write_note, language),
      month_name=functools.partial(_name_month, language),
      languages=_link_languages(request),
      form_fields=functools.partial(forms.write_fields, request),
      read_only=settings_of(request).read_only,
      **values,
    )
  )


def _name_month(language: str, name: str) -> str:
  """Returns the name of a month, or of what is none."""
  if name == calendars.OUTSIDE and language != messages.ENGLISH:
    return messages.translate(language, "record.outside")
  return name


@functools.cache
def _environment() -> jinja2.Environment:
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader("ctd_jax", "web/templates"),
    autoescape=True,  # texts of a corpus may hold < and &
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  )
  environment.filters |= {
    "chance": answer_phrases.format_chance,
    "clean": answer_phrases.clean,
    "exact": write_exactly,
    "year": reign_tables.format_common_era_year,
    "number": "{:,}".format,
    "size": format_size,
    "weight": format_weight,
  }
  environment.globals |= {
    "split_marks": split_marks,
    "is_outside": calendars.OUTSIDE.__eq__,
  }
  return environment


def format_weight(weight: float) -> str:
  """Returns the weight of a reason as +1.2; what is nearly nothing as 0.0."""
  return f"{weight:+.1f}" if abs(weight) >= 0.05 else "0.0"


def format_size(num_bytes: int) -> str:
  """Returns a number of bytes as 184 B, 12.5 KiB or 3.0 MiB."""
  if num_bytes < 1 << 10:
    return f"{num_bytes} B"
  if num_bytes < 1 << 20:
    return f"{num_bytes / (1 << 10):.1f} KiB"
  return f"{num_bytes / (1 << 20):.1f} MiB"


def write_exactly(text: str) -> markupsafe.Markup:
  """Returns the value of a field, to be sent back as it is.

  Args:
    text: whose characters that are not printed become references.
  """
  escaped = "".join(
    character if character.isprintable() else f"&#{ord(character)};"
    for character in str(markupsafe.escape(text))
  )
  return markupsafe.Markup(escaped)


def split_marks(
  text: str, spans: Sequence[Sequence[int]]
) -> list[tuple[str, bool]]:
  """Returns the parts of a text and whether each is marked.

  Args:
    text: of a record.
    spans: first character and end of what is marked; they may overlap.
  """
  merged: list[tuple[int, int]] = []
  for start, end in sorted(
    (max(start, 0), min(end, len(text))) for start, end in spans
  ):
    if merged and start <= merged[-1][1]:
      merged[-1] = merged[-1][0], max(end, merged[-1][1])
    elif start < end:
      merged.append((start, end))
  return list(page.split_marks(text, merged))


@functools.cache
def _load_style() -> markupsafe.Markup:
  style = importlib.resources.files("ctd_jax").joinpath("web/static/site.css")
  return markupsafe.Markup(style.read_text(encoding="utf-8"))


def _link_languages(request: Request) -> list[tuple[str, str]]:
  """Returns (language, address of this page in it)."""
  if request.method != "GET":
    return []
  path = quote(request.scope["path"])  # an id of a record may have any name
  return [
    (
      language,
      f"{path}?{request.url.include_query_params(lang=language).query}",
    )
    for language in messages.LANGUAGES
  ]


def _find_other_index(request: Request, served: ServedIndex) -> str:
  """Returns the hash that the address has, if it is another index's."""
  sha256 = request.query_params.get("index", "")[:64]
  is_same = served.index.versions.index_sha256.startswith(sha256)
  return "" if is_same else sha256
