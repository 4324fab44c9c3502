"""Rare characters: cut from a font, linked by the pages that have them."""

import io
import re

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

from ctd_jax.web import fonts, rendering
from tests.web.conftest import open_client

RARE = "𤣥𫝊㑹"


@pytest.fixture(scope="module")
def font(tmp_path_factory):
  """Returns a font in which each rare character is a square."""
  pen = TTGlyphPen(None)
  pen.moveTo((0, 0))
  for place in ((0, 900), (900, 900), (900, 0)):
    pen.lineTo(place)
  pen.closePath()
  names = [".notdef", *(f"u{ord(it):x}" for it in RARE)]
  builder = FontBuilder(1000)
  builder.setupGlyphOrder(names)
  builder.setupCharacterMap(
    {ord(it): name for it, name in zip(RARE, names[1:], strict=True)}
  )
  builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
  builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
  builder.setupHorizontalHeader(ascent=900, descent=-100)
  builder.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
  builder.setupOS2()
  builder.setupPost()
  path = tmp_path_factory.mktemp("font") / "squares.ttf"
  builder.save(path)
  return path


@pytest.fixture(scope="module")
def client(index_folder, font):
  with open_client(index_folder, fonts=(font,)) as client:
    yield client


def test_page_gets_the_rare_characters_that_it_has(client):
  page = client.get("/convert", params={"q": "天地𤣥黄，㑹于某，𩽾"}).text
  (style,) = re.findall(r'href="(/font/[^"]+)"', page)
  assert style == f"/font/{rendering.make_codes('㑹𤣥')}.css"
  sheet = client.get(style)
  assert "immutable" in sheet.headers["cache-control"]
  assert "unicode-range:U+3479,U+248e5" in sheet.text
  (name,) = re.findall(r'url\("([^"]+)"\)', sheet.text)
  part = client.get(f"/font/{name}")
  assert part.content.startswith(b"wOF2")
  cut = TTFont(io.BytesIO(part.content))
  assert set(map(chr, cut.getBestCmap())) == {"㑹", "𤣥"}
  assert cut["glyf"]["u248e5"].numberOfContours == 1
  assert cut["hmtx"]["u248e5"] == (1000, 0)


def test_saved_page_has_them_inside_and_others_ask_for_nothing(client):
  saved = client.get("/save/?q=𤣥").text
  assert 'url("data:font/woff2;base64,' in saved
  assert "font-src data:" in saved
  assert "/font/" not in client.get("/?q=鄭人").text


@pytest.mark.parametrize(
  "path",
  [
    *("0-6f22.woff2", "1-3479.woff2", "0-248e5-3479.woff2", "x.css"),
    *("110000.css", "-.css", "d800.css", "0-3479-3479.woff2", "2a6de.css"),
  ],
)
def test_what_no_page_asks_for_is_not_cut(client, path):
  assert client.get(f"/font/{path}").status_code == 404


def test_server_without_fonts_sends_none(index_folder, tmp_path):
  assert fonts.RareFonts(()).find(RARE) == ""
  path = tmp_path / "font.ttf"
  path.write_text("no font")
  with pytest.raises(ValueError, match=r"--font=.*expected a font"):
    fonts.open_fonts((path,))
