"""Answer as one HTML page, to be archived and cited.

The page is complete in itself: no script, no other file, no other host. It
names the question, the time, the versions and the hash of the index, so that
somebody else can tell whether they ask the same.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence

import jinja2
import markupsafe

from ctd_jax.index.answers import answer_phrases, posterior_figure
from ctd_jax.index.answers.answer import Answer
from ctd_jax.utils import files


def write_page(path: str | os.PathLike, answer: Answer) -> None:
  """Writes an answer as a page, whole or not at all."""
  files.write_text(path, format_page(answer))


def format_page(answer: Answer) -> str:
  """Returns an answer as a page."""
  figure = ""
  if answer.dates is not None:
    figure = posterior_figure.draw_posterior(answer.dates.curve)
  return _load_template().render(
    answer=answer,
    figure=markupsafe.Markup(figure),  # its texts are escaped
    chance=answer_phrases.format_chance,
    clean=answer_phrases.clean,
    name_evidence=answer_phrases.name_evidence,
    list_weighty=answer_phrases.list_weighty,
    name_weightless=answer_phrases.name_weightless,
    spans=functools.partial(answer_phrases.format_spans, max_spans=8),
    split_marks=split_marks,
  )


@functools.cache
def _load_template() -> jinja2.Template:
  return jinja2.Environment(
    loader=jinja2.PackageLoader("ctd_jax", "index/answers"),
    autoescape=True,  # texts of a corpus may hold < and &
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  ).get_template("answer_page.html")


def split_marks(
  text: str, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[str, bool]]:
  """Yields the parts of a text and whether each is marked."""
  position = 0
  for start, end in spans:
    if start > position:
      yield text[position:start], False
    yield text[start:end], True
    position = end
  if position < len(text):
    yield text[position:], False
