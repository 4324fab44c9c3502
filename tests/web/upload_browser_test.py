"""A text is brought in a browser: chosen, looked at, built, read."""

import pytest

from tests.web import chromium
from tests.web.chromium import WIDTHS

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = chromium.MARKS

TEXT = """隱公
元年，春，王正月。
三月，公及邾儀父盟于蔑。
夏，五月，鄭伯克段于鄢。
二年，春，公會戎于潛。
夏，五月，莒人入向。
"""
BUILD_MILLISECONDS = 400_000


@pytest.fixture
def open_page(browser, tmp_path):
  with (
    chromium.serve(tmp_path / "new.index") as address,
    chromium.open_pages(browser, address) as open_page,
  ):
    yield open_page


def test_text_becomes_an_index_that_is_read(open_page, tmp_path):
  """By keyboard alone, as on a telephone."""
  path = tmp_path / "春秋.txt"
  path.write_text(TEXT)
  page = open_page("/", width="narrow")
  assert page.url.endswith("/upload")
  chromium.tab_to(page, page.locator("#files"))
  # The list of files that a key opens is the browser's own.
  page.locator("#files").set_input_files(path)
  chromium.tab_to(page, page.get_by_label("Calendar of the index"))
  page.keyboard.press("Control+A")
  page.keyboard.type("lu")
  chromium.press(page, page.get_by_role("button", name="Preview"))
  page.wait_for_url("**/upload/*")
  page.wait_for_selector("form.settings", timeout=BUILD_MILLISECONDS)
  assert "鄭伯克段于鄢" in page.locator("form.settings").inner_text()
  address = page.url
  for width in WIDTHS:
    for scheme in ("light", "dark"):
      for shown in ("/upload", address):
        looked_at = open_page(shown, width=width, scheme=scheme)
        chromium.check_page(looked_at, width)
  chromium.press(page, page.get_by_role("button", name="Build"))
  page.wait_for_url("**/jobs/*")
  page.wait_for_selector(".state.done", timeout=BUILD_MILLISECONDS)
  page.goto(address)
  chromium.press(page, page.get_by_role("link", name="春秋").first)
  page.wait_for_url("**work=*")
  chromium.tab_to(page, page.get_by_label("A time, words, or a passage"))
  page.keyboard.type("魯隱公元年五月")
  page.keyboard.press("Enter")
  page.wait_for_url("**q=*")
  assert "鄭伯克段于鄢" in page.locator("ol.records > li").first.inner_text()


def test_files_that_are_too_large_are_not_sent(open_page, tmp_path):
  path = tmp_path / "big.txt"
  with path.open("wb") as file:
    file.truncate((64 << 20) + 1)
  page = open_page("/upload")
  page.set_input_files("#files", path)
  page.get_by_role("button", name="Preview").click()
  assert page.url.endswith("/upload")
  assert "64 MiB" in page.locator("#files").evaluate(
    "it => it.validationMessage"
  )


def test_file_in_another_encoding_is_named(open_page, tmp_path):
  path = tmp_path / "史.txt"
  path.write_bytes(("元年之人也。\n" * 40).encode("gb18030"))
  page = open_page("/upload", java_script_enabled=False)
  page.set_input_files("#files", path)
  page.get_by_role("button", name="Preview").click()
  page.wait_for_selector(".note", timeout=BUILD_MILLISECONDS)
  assert "史.txt:1" in page.locator(".note").inner_text()
  encoding = page.get_by_label("Encoding of files that are not UTF-8")
  assert encoding.input_value() == "gb18030"
  page.get_by_role("button", name="Read again").click()
  page.wait_for_selector("text=元年之人也。", timeout=BUILD_MILLISECONDS)
  page.get_by_role("button", name="Read again").click()
  page.wait_for_selector("form.settings")  # nothing has changed
  page.get_by_role("button", name="Discard").click()
  page.wait_for_url("**/upload")
