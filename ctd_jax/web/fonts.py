"""Rare characters, sent as the part of a font that a page needs.

Few systems have fonts for the CJK extensions, which the texts use all the same.
A page links to a style sheet of its rare characters, which holds them as WOFF2,
cut from fonts that are installed or that --font names.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import io
import pathlib
import re
import threading
from collections.abc import Iterable, Iterator

from absl import logging
from fastapi import APIRouter
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.cu2quPen import Cu2QuPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont, TTLibError
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.web.requests import PageError, endpoint
from ctd_jax.web.served_index import ServedIndex

FAMILY = "Rare Han"  # as site.css calls it
# Where packages of Debian put fonts with an open licence: fonts-hanazono.
INSTALLED = tuple(
  pathlib.Path("/usr/share/fonts/truetype/hanazono", name)
  for name in ("HanaMinA.ttf", "HanaMinB.ttf")
)
# Extension A with the hexagrams, and extensions B to H.
_RARE = re.compile("[\u3400-\u4dff\U00020000-\U000323af]")
_MAX_CHARACTERS = 300  # of a page; an address holds five bytes for each
_MAX_PARTS = 256  # in the cache, some kB each
_LASTING = "private, max-age=31536000, immutable"
_MAX_ERROR = 0.001  # of a curve, in ems
router = APIRouter(include_in_schema=False)


@dataclasses.dataclass(frozen=True)
class PageFont:
  """A font that has some of the characters of a page."""

  number: int  # of the font among those of the server
  characters: str  # ascending

  @property
  def ranges(self) -> str:
    """The characters as a style sheet names them."""
    return ",".join(f"U+{ord(it):x}" for it in self.characters)


class RareFonts:
  """Fonts for rare characters, in order of preference."""

  def __init__(self, paths: Iterable[pathlib.Path]):
    """Opens the fonts.

    Raises:
      ValueError: if a file is no font; it names the flag.
    """
    self._paths = tuple(paths)
    self._lock = threading.Lock()  # a font reads its file as it goes
    self._fonts = [_open_font(path) for path in self._paths]
    self._known = [frozenset(font.getBestCmap()) for font in self._fonts]
    self.cut = functools.lru_cache(_MAX_PARTS)(self._cut)

  def find(self, text: str) -> str:
    """Returns the rare characters of a text that a font has, ascending."""
    if not self._fonts:
      return ""
    found = sorted(set(_RARE.findall(text)))
    known = [it for it in found if any(ord(it) in has for has in self._known)]
    return "".join(known[:_MAX_CHARACTERS])

  def choose(self, characters: str) -> Iterator[PageFont]:
    """Yields the fonts of characters, each with those that it is used for."""
    rest = set(characters)
    for number, known in enumerate(self._known):
      chosen = sorted(it for it in rest if ord(it) in known)
      rest.difference_update(chosen)
      if chosen:
        yield PageFont(number, "".join(chosen))

  def _cut(self, number: int, characters: str) -> bytes:
    """Returns the shapes of some characters of a font as WOFF2."""
    # Built anew: fontTools.subset reads all of a font, which takes seconds.
    font, glyphs, widths = self._fonts[number], {}, {}
    names = {code: f"u{code:x}" for code in map(ord, characters)}
    with self._lock:
      drawn = font.getGlyphSet()
      for code, name in ((None, ".notdef"), *names.items()):
        glyph = drawn[".notdef" if code is None else font.getBestCmap()[code]]
        pen = TTGlyphPen(None)
        # Outlines of OpenType become those of TrueType.
        glyph.draw(Cu2QuPen(pen, font["head"].unitsPerEm * _MAX_ERROR))
        glyphs[name], widths[name] = pen.glyph(), (glyph.width, 0)
      builder = FontBuilder(font["head"].unitsPerEm)
      builder.setupGlyphOrder([*glyphs])
      builder.setupCharacterMap(names)
      builder.setupGlyf(glyphs)
      builder.setupHorizontalMetrics(widths)
      head = font["hhea"]
      builder.setupHorizontalHeader(ascent=head.ascent, descent=head.descent)
      # A part may not bear the name of the font, but its copyright.
      copyright_ = font["name"].getDebugName(0) or ""
      builder.setupNameTable({"copyright": copyright_, "familyName": FAMILY})
      builder.setupOS2()
      builder.setupPost()
    builder.font.flavor = "woff2"
    content = io.BytesIO()
    builder.save(content)
    return content.getvalue()

  def write_style(self, characters: str) -> str:
    """Returns the style sheet of some characters, with their shapes."""
    rules = []
    for font in self.choose(characters):
      content = base64.b64encode(self.cut(font.number, font.characters))
      rules.append(
        f'@font-face{{font-family:"{FAMILY}";src:url("data:font/woff2;base64,'
        f'{content.decode()}") format("woff2");unicode-range:{font.ranges}}}'
      )
    return "\n".join(rules)


def _open_font(path: pathlib.Path) -> TTFont:
  try:
    return TTFont(path, lazy=True, fontNumber=0)
  except (OSError, TTLibError) as error:
    raise ValueError(
      f"--font={path}: {error}; expected a font (.ttf, .otf, .ttc)"
    ) from error


def open_fonts(paths: tuple[pathlib.Path, ...] | None) -> RareFonts:
  """Returns the fonts of a server; None for those that are installed."""
  if paths is None:
    paths = tuple(path for path in INSTALLED if path.is_file())
    if not paths:
      logging.info(
        "rare characters are left to the fonts of the readers; install "
        "fonts-hanazono, or set --font=FILE, to send them with the pages"
      )
  return RareFonts(paths)


@router.get("/font/{codes}.css")
@endpoint
def send_style(request: Request, served: ServedIndex, codes: str) -> Response:
  """Returns the style sheet of some characters."""
  fonts: RareFonts = request.app.state.fonts
  try:
    text = "".join(chr(int(code, 16)) for code in codes.split("-"))
  except (ValueError, OverflowError):
    raise PageError(404) from None
  # Only what a page can ask for: it is kept, and takes time.
  if fonts.find(text) != text:
    raise PageError(404)
  return Response(
    fonts.write_style(text),
    media_type="text/css",
    headers={"Cache-Control": _LASTING},
  )
