"""Rare characters: cut from a font, linked by the pages that have them."""

import base64
import io
import re

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from matplotlib import image

from ctd_jax.web import fonts, rendering
from tests.web import chromium
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
  (part,) = re.findall(r'url\("data:font/woff2;base64,([^"]+)"', sheet.text)
  cut = TTFont(io.BytesIO(base64.b64decode(part)))
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
    *("6f22.css", "248e5-3479.css", "x.css", "110000.css", "-.css"),
    *("d800.css", "3479-3479.css", "2a6de.css", "0-3479.woff2"),
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


@pytest.fixture(scope="module")
def address(index_folder, font):
  with chromium.serve(index_folder, fonts=(font,)) as address:
    yield address


@chromium.MARKS[0]
@chromium.MARKS[1]
def test_the_value_of_a_field_has_them_before_it_is_drawn_again(open_page):
  pytest.importorskip("playwright.sync_api")
  page = open_page("/?q=𤣥端")
  page.wait_for_function("[...document.fonts][0]?.status === 'loaded'")
  page.wait_for_timeout(200)
  before = count_dark(page)
  page.evaluate("document.querySelector('#q').style.letterSpacing = '1px'")
  assert before == pytest.approx(count_dark(page), rel=0.1)


def count_dark(page):
  """Returns the dark pixels of the question; a square has more than tofu."""
  shot = image.imread(io.BytesIO(page.locator("#q").screenshot()), "png")
  return (shot[..., :3].mean(-1) < 0.35).sum()
