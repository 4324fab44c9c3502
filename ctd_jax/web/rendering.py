"""Renders pages, charts and errors from templates, in three languages.

messages.tsv holds the texts of the pages, one code per line; messages about
an index's texts are in `utils.notes`. Corpus text is escaped like any other
value. A saved page has its style inside and links to its server.
"""

import functools
import hashlib
import http
import importlib.util
import operator
import pathlib
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
import markupsafe
from absl import logging
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
  HTMLResponse,
  JSONResponse,
  RedirectResponse,
  Response,
)

from ctd_jax.chronology import reigns
from ctd_jax.index import (
  answer_files,
  answers,
  calendars,
  charts,
  date_levels,
  ranking,
)
from ctd_jax.index.answers import clean
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.index.question_calendar import QuestionError
from ctd_jax.utils import notes, output
from ctd_jax.utils.notes import (
  ENGLISH,
  SIMPLIFIED,
  TRADITIONAL,
  Note,
)
from ctd_jax.web import certainty, overview, requests, served_index
from ctd_jax.web.requests import settings_of
from ctd_jax.web.served_index import ServedIndex

# Chinese language tags that mean simplified characters.
_SIMPLIFIED_TAGS = ("zh-hans", "zh-cn", "zh-sg", "zh-my")

STATIC_FOLDER = pathlib.Path(__file__).parent / "static"
SAVE_PREFIX, EXPORT_PREFIX = "/save", "/export"
# Formats in which a page can be saved, without those of extras that are
# missing. Pages have their own HTML.
EXPORT_FORMATS = tuple(
  suffix
  for suffix in answer_files.WRITERS
  if suffix != ".html"
  and (suffix != ".xlsx" or importlib.util.find_spec("openpyxl"))
)
_SAVED_POLICY = (
  "default-src 'none'; style-src 'unsafe-inline'; font-src data:; "
  "base-uri 'none'"
)
# A flag of the shell outside of a command, and its value.
_FLAG = re.compile(r"ctd-jax .*|( ?)--(\w+)(?:=([\w:-]+))?( ?)")
_MAX_LANGUAGE_TAGS = 200  # characters read of a header
# Statuses with a text of their own.
EXPLAINED = (400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 503)
# Notes on a place in a question, and on a year that the calendar lacks.
_AT_PLACE = "problem.date.at"
_OTHER_YEAR = ("problem.year.meant", "problem.year.lacking")
_RETRY_AFTER = "10"  # seconds
_PROGRAM_PATHS = ("/api/", "/mcp")  # whose errors are JSON
# Parameter errors with a text of their own.
_KNOWN_TYPES = ("int_parsing", "int_parsing_size")


@functools.cache
def load_messages() -> Mapping[str, Mapping[str, str]]:
  """Returns code -> language -> text."""
  return notes.load_table("ctd_jax.web", "messages.tsv")


def translate(language: str, name: str, /, **values: Any) -> str:
  """Returns a message with its values filled in."""
  words = {name: notes.write(it, language) for name, it in values.items()}
  return reigns.write_years(
    language, load_messages()[name][language].format(**words)
  )


def translate_term(language: str, group: str, term: str) -> str:
  """Returns the name of a value such as a kind, or the value if it has none."""
  message = load_messages().get(f"{group}.{term.replace(' ', '_')}")
  if message is None:
    return notes.write(notes.of_term(group, term), language)
  return message[language]


def write_note(
  language: str, note: Note | Mapping[str, Any] | str
) -> markupsafe.Markup:
  """Returns a note as HTML, from a note, its JSON or a plain English text."""
  if isinstance(note, Mapping):
    note = notes.from_json(note)
  text = certainty.drop_weights(clean(notes.write(note, language)))
  text = _FLAG.sub(functools.partial(_name_field, language), text)
  text = markupsafe.escape(reigns.write_years(language, text))
  if language == ENGLISH or isinstance(note, Note):
    return text
  return markupsafe.Markup('<span lang="{}">{}</span>').format(ENGLISH, text)


def _name_field(language: str, flag: re.Match[str]) -> str:
  """Returns what a flag is called on the pages; itself if it has no field."""
  before, name, value, after = flag.groups()
  if f"field.{name}" not in load_messages():
    return flag[0]
  text = translate(language, f"field.{name}")
  if value is not None:
    text = translate(language, "field.value", field=text, value=value)
  return f"{before}{text}{after}" if language == ENGLISH else text


def write_certainty(language: str, told: certainty.ToldDate) -> str:
  """Returns how sure a date is, in words."""
  words = functools.partial(translate, language)
  joint = " " if language == ENGLISH else ""
  values = {
    name: joint.join(map(words, it)) if name == "month" else it
    for name, it in told.values.items()
  }
  return words(told.code, **values)


def write_sentence(language: str, text: markupsafe.Markup) -> markupsafe.Markup:
  """Returns a note with a capital and a full stop."""
  if not text:
    return text
  is_ended = text[-1] in ".!?。！？"
  end = "" if is_ended else "." if language == ENGLISH else "。"
  return markupsafe.Markup(text[0].upper() + text[1:] + end)


def format_percent(chance: float) -> str:
  """Returns a probability as a whole number of percent."""
  if 0 < chance < 0.005:
    return "< 1 %"
  return "> 99 %" if 0.995 <= chance < 1 else f"{100 * chance:.0f} %"


def choose_language(requested: str, accepted: str) -> str:
  """Returns the language of a page.

  Args:
    requested: one of `LANGUAGES`, or "".
    accepted: the browser's Accept-Language header.
  """
  if requested:
    return requested
  tags = map(_read_weight, accepted.split(","))
  for _, tag in sorted(tags, key=operator.itemgetter(0)):
    if tag.startswith("zh"):
      is_simplified = tag == "zh" or tag.startswith(_SIMPLIFIED_TAGS)
      return SIMPLIFIED if is_simplified else TRADITIONAL
    if tag.startswith("en"):
      return ENGLISH
  return ENGLISH


def _read_weight(part: str) -> tuple[float, str]:
  """Returns a language tag after its negative weight."""
  tag, _, weight = part.partition(";q=")
  try:
    return -float(weight or 1), tag.strip().lower()
  except ValueError:
    return 0.0, tag.strip().lower()


def find_language(request: Request) -> str:
  """Returns the language in which to answer a request."""
  requested = request.query_params.get("lang", "")
  return choose_language(
    requested if requested in notes.LANGUAGES else "",
    request.headers.get("accept-language", "")[:_MAX_LANGUAGE_TAGS],
  )


def render_page(
  request: Request,
  served: ServedIndex,
  template: str,
  permalink: str,
  rows: Collection[int] = (),
  can_export: bool = False,
  **values: Any,
) -> Response:
  """Returns a page about an index.

  Args:
    permalink: address of the page, with the index's hash.
    rows: records that the page links to, as far as known.
    can_export: whether `export_pages` writes files of what it shows.
  """
  links = PageLinks(request, served, rows)
  is_saved = links.is_saved
  versions = served.index.versions
  asked_sha256 = request.query_params.get("index", "")[:64]
  is_other = not versions.index_sha256.startswith(asked_sha256)
  content = _render(
    request,
    template,
    link=links,
    saved_style=_load_style() if is_saved else "",
    versions=versions,
    overview=lambda: served.remember(overview.describe_index, "", 1),
    tell=functools.partial(certainty.tell_date, served),
    permalink=str(request.base_url).rstrip("/") + permalink,
    save_link=SAVE_PREFIX + permalink,
    exports=[
      (suffix[1:], f"{EXPORT_PREFIX}{permalink}&format={suffix[1:]}")
      for suffix in (EXPORT_FORMATS if can_export else ())
    ],
    other_index=asked_sha256 if is_other else "",
    **values,
  )
  content = _add_fonts(request, content, is_saved)
  headers = {}
  if is_saved:
    headers = {
      "Content-Disposition": 'attachment; filename="ctd-page.html"',
      "Content-Security-Policy": _SAVED_POLICY,
    }
  return HTMLResponse(content, headers=headers)


def _add_fonts(request: Request, content: str, is_saved: bool) -> str:
  """Returns a page with the font of its rare characters, if it has any."""
  fonts = request.app.state.fonts
  characters = fonts.find(content)
  if not characters:
    return content
  part = f'<link rel="stylesheet" href="/font/{make_codes(characters)}.css">'
  if is_saved:
    part = f"<style>{fonts.write_style(characters)}</style>"
  return content.replace("</head>", f"{part}\n</head>", 1)


def make_codes(characters: str) -> str:
  """Returns characters as an address names them."""
  return "-".join(f"{ord(it):x}" for it in characters)


def render_plain(request: Request, template: str, **values: Any) -> str:
  """Returns a page that shows nothing from an index."""
  return _render(
    request,
    template,
    link=PageLinks(request),
    saved_style="",
    **values,
  )


class PageLinks:
  """Addresses of other pages, in the language of this page."""

  def __init__(
    self,
    request: Request,
    served: ServedIndex | None = None,
    rows: Collection[int] = (),
  ):
    self._served = served
    self._names = served_index.name_records(served.index, rows) if rows else {}
    language = request.query_params.get("lang", "")
    self.language = language if language in notes.LANGUAGES else ""
    self.is_saved = request.url.path.startswith(f"{SAVE_PREFIX}/")
    self._base = str(request.base_url).rstrip("/") if self.is_saved else ""

  def record(self, row: int) -> str:
    """Returns the permanent address of a record."""
    if row not in self._names:
      self._names |= served_index.name_records(self._served.index, [row])
    return self(served_index.make_record_path(*self._names[row]))

  def __call__(
    self,
    path: str,
    parameters: str | dict[str, Any] = "",
    **more_parameters: Any,
  ) -> str:
    """Returns an address on this server, in the language of the page.

    Args:
      parameters: parameters by name, or encoded as by `PageQuery.encode`.
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
      t=functools.partial(translate, language),
      term=functools.partial(translate_term, language),
      note=functools.partial(write_note, language),
      of_term=notes.of_term,
      of_calendar=notes.of_calendar,
      sentence=functools.partial(write_sentence, language),
      era=functools.partial(reigns.write_years, language),
      sure=functools.partial(write_certainty, language),
      month_name=functools.partial(_name_month, language),
      saved_policy=_SAVED_POLICY,
      languages=_link_languages(request),
      form_fields=functools.partial(requests.write_fields, request),
      read_only=settings_of(request).read_only,
      **values,
    )
  )


def _name_month(language: str, name: str) -> str:
  """Returns a month's name, or the translated name for no month."""
  if name == calendars.OUTSIDE and language != notes.ENGLISH:
    return translate(language, "record.outside")
  return name


@functools.cache
def _environment() -> jinja2.Environment:
  environment = output.open_templates("web/templates")
  environment.filters |= {
    "chance": answers.format_chance,
    "amount": charts.format_value,
    "clean": answers.clean,
    "exact": write_exactly,
    "year": reigns.format_common_era_year,
    "number": "{:,}".format,
    "percent": format_percent,
    "size": format_size,
  }
  environment.globals |= {
    "degree": certainty.find_degree,
    "almost": date_levels.ALMOST,
    "list_reasons": certainty.list_reasons,
    "static": link_static,
    "split_marks": split_marks,
    "is_outside": calendars.OUTSIDE.__eq__,
  }
  return environment


def format_size(num_bytes: int) -> str:
  """Returns a number of bytes as 184 B, 12.5 KiB or 3.0 MiB."""
  if num_bytes < 1 << 10:
    return f"{num_bytes} B"
  if num_bytes < 1 << 20:
    return f"{num_bytes / (1 << 10):.1f} KiB"
  return f"{num_bytes / (1 << 20):.1f} MiB"


def write_exactly(text: str) -> markupsafe.Markup:
  """Returns a field's value as HTML that a browser sends back unchanged."""
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
    spans: first character and end of each mark; they may overlap.
  """
  cut = [(max(start, 0), min(end, len(text))) for start, end in spans]
  merged = ranking.merge_spans(
    [(start, end) for start, end in cut if start < end]
  )
  return list(answer_files.split_marks(text, merged))


@functools.cache
def hash_static() -> str:
  """Returns a hash of all static files, the folder of their addresses."""
  digest = hashlib.sha256()
  for path in sorted(STATIC_FOLDER.iterdir()):
    digest.update(path.name.encode() + path.read_bytes())
  return digest.hexdigest()[:12]


def link_static(name: str) -> str:
  """Returns the address of a static file, which changes with its content."""
  return f"/static/{hash_static()}/{name}"


@functools.cache
def _load_style() -> markupsafe.Markup:
  style = (STATIC_FOLDER / "site.css").read_text(encoding="utf-8")
  return markupsafe.Markup(style)


def _link_languages(request: Request) -> list[tuple[str, str]]:
  """Returns (language, address of this page in it)."""
  if request.method != "GET":
    return []
  path = quote(request.scope["path"])  # record ids may hold any character
  return [
    (
      language,
      f"{path}?{request.url.include_query_params(lang=language).query}",
    )
    for language in notes.LANGUAGES
  ]


def make_error_response(
  request: Request,
  status: int,
  detail: str = "",
  number: str = "",
  meant: str = "",
) -> Response:
  """Returns the answer to a failed request, as JSON for the API.

  Args:
    detail: what is wrong, and what would be right.
    number: of the error in the log.
    meant: question that may be meant.
  """
  problem = {
    "status": status,
    "title": http.HTTPStatus(status).phrase,
    "detail": detail,
    "number": number,
  }
  headers = {"Retry-After": _RETRY_AFTER} if status == 503 else None
  if request.url.path.startswith(_PROGRAM_PATHS):
    return JSONResponse({"error": problem}, status, headers)
  is_question = request.url.path == "/" and status == 422
  content = render_plain(
    request,
    "error.html",
    **problem,
    kind=status if status in EXPLAINED else 400,
    meant=meant,
    question=request.query_params.get("q", "") if is_question else "",
  )
  return HTMLResponse(content, status, headers)


def answer_error(request: Request, error: Exception) -> Response:
  """Returns the answer to a request that ended with an error."""
  is_api = request.url.path.startswith(_PROGRAM_PATHS)
  language = notes.ENGLISH if is_api else find_language(request)
  match error:
    case requests.PageError(message=""):
      return make_error_response(request, error.status)
    case requests.PageError():
      detail = translate(language, error.message, **error.values)
      return make_error_response(request, error.status, detail)
    case served_index.NoIndexError():
      if is_api:
        return make_error_response(request, 404, "the index is yet to be built")
      return RedirectResponse(PageLinks(request)("/upload"), 303)
    case HTTPException():
      return make_error_response(request, error.status_code)
    case RequestValidationError():
      problems = tuple(map(_describe_parameter, error.errors()[:5]))
      is_path = any(item["loc"][0] == "path" for item in error.errors())
      return make_error_response(
        request, 404 if is_path else 422, notes.write(problems, language)
      )
    case QuestionError():
      note = notes.of_error(error)
      if isinstance(note, Note) and note.code == _AT_PLACE and not is_api:
        note = note.values["problem"]  # the page shows the question itself
      meant = ""
      if isinstance(note, Note) and note.code in _OTHER_YEAR:
        meant = reigns.write_years(language, note.values["other"])
      problem = reigns.write_years(language, notes.write(note, language))
      return make_error_response(request, 422, problem, meant=meant)
    case DamagedIndexError():  # names files of the server: for its log
      logging.error("%s %s: %s", request.method, request.url.path, error)
      return answer_error(request, requests.PageError(500, "error.damaged"))
    case PermissionError():  # a change that the server is not allowed to write
      logging.error("%s %s: %s", request.method, request.url.path, error)
      refusal = requests.PageError(403, "error.unwritable")
      return answer_error(request, refusal)
  number = secrets.token_hex(4)
  logging.error(
    "error %s: %s %s", number, request.method, request.url.path, exc_info=error
  )
  return make_error_response(request, 500, "", number)


def _describe_parameter(item: dict[str, Any]) -> Note:
  """Returns the problem with a parameter."""
  part, *names = map(str, item["loc"])
  if part == "path" and item["type"] in _KNOWN_TYPES:
    return Note(f"problem.address.{item['type']}", name=".".join(names))
  return Note("problem.at", place=".".join((part, *names)), problem=item["msg"])
