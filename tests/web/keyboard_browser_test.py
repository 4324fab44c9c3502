"""The tasks of a reader by keyboard alone, wide and as on a telephone.

What has to be reached is reached by the tabulator key, from where the focus is.
A text is brought in `upload_browser_test`, dates are dated again in
`correction_browser_test`.
"""

import re

import pytest

from tests.web import annals_index, chromium
from tests.web.chromium import WIDTHS

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = [*chromium.MARKS, pytest.mark.parametrize("width", WIDTHS)]

PASSAGE = "秋，河南大水傷禾。"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
  index = annals_index.build_index(tmp_path_factory.mktemp("keyboard"))
  with chromium.serve(index) as address:
    yield address


def link(page, name, **options):
  return page.get_by_role("link", name=name, **options).first


def test_search_is_asked_and_changed(open_page, width):
  page = open_page(width=width)
  page.keyboard.type("泰始元年")  # the box has the focus
  page.keyboard.press("Enter")
  page.wait_for_url("**q=*")
  before = page.locator("ol.records > li").count()
  chromium.press(page, page.locator("details.change summary"))
  chromium.tab_to(page, page.get_by_label("To", exact=True))
  page.keyboard.press("Control+A")
  page.keyboard.type("泰始元年五月")
  chromium.press(page, page.get_by_role("button", name="Apply"))
  page.wait_for_url("**to=*")
  assert 0 < page.locator("ol.records > li").count() < before
  chromium.press(page, link(page, "Original question"))
  page.wait_for_url(re.compile(r"\?q=[^&]+$"))
  assert page.locator("ol.records > li").count() == before
  page.wait_for_selector("#plot.live svg")
  chromium.tab_to(page, page.locator("#plot"))
  page.keyboard.press("Home")
  page.keyboard.press("Enter")
  page.wait_for_url("**from=*")


def test_month_leads_to_the_next_and_to_its_year(open_page, width):
  page = open_page(width=width)
  page.keyboard.type("泰始元年七月")
  page.keyboard.press("Enter")
  page.wait_for_url("**q=*")
  chromium.press(page, page.locator(".understood a[href*='/month/']").first)
  page.wait_for_url("**/month/6*")
  assert "河南大水" in page.locator(".events").inner_text()
  chromium.press(page, page.locator("a[rel=next]"))
  page.wait_for_url("**/month/7*")
  assert "吳人來寇" in page.locator(".events").inner_text()
  chromium.press(page, link(page, "The whole year"))
  page.wait_for_url("**/year/7*")
  chromium.press(page, link(page, "秋七月，河南大水。"))
  page.wait_for_url("**/record/annals/6*")


def test_record_leads_to_its_neighbours_and_month(open_page, width):
  page = open_page("/record/annals/6", width=width)
  assert page.locator("h1 mark").inner_text() == "秋七月"
  chromium.press(page, link(page, "有司奏免租賦。"))
  page.wait_for_url("**/record/annals/7*")
  assert "Stands between" in page.locator(".reasons").inner_text()
  chromium.press(page, page.locator("details.likely summary"))
  credible = page.locator("dl.facts").first.locator("a")
  chromium.press(page, credible.first)
  page.wait_for_url("**/month/*")
  page.go_back()
  chromium.press(page, page.locator(".date a").first)
  page.wait_for_url("**/month/*")


def test_passage_is_dated_and_explained(open_page, width):
  page = open_page("/", width=width)
  if width == "narrow":
    chromium.press(page, page.locator("details.menu summary"))
  chromium.press(page, link(page, "Date a passage"))
  page.wait_for_url("**/date")
  chromium.tab_to(page, page.locator("#q"))
  page.keyboard.type(PASSAGE)
  chromium.press(page, page.get_by_role("button", name="Date it"))
  page.wait_for_selector(".large")
  assert "泰始元年七月" in page.locator(".large").inner_text()
  assert page.locator(".reasons > li").count()
  chromium.check_page(page, width)
  chromium.press(page, page.locator("ol.records .text a").first)
  page.wait_for_url("**/record/annals/6*")


def test_date_of_several_reigns_is_chosen_saved_and_undone(open_page, width):
  page = open_page("/record/annals/10", width=width)
  chromium.press(page, page.locator("details.change summary"))
  chromium.tab_to(page, page.get_by_label("Correct date"))
  page.keyboard.type("元年")
  choice = page.get_by_role("radio", name="晉武帝泰始元年")
  choice.wait_for()
  chromium.check_page(page, width)
  # A group of radio buttons is one stop; its first has the focus.
  chromium.tab_to(page, page.get_by_role("radio").first)
  page.keyboard.press("Space")
  assert choice.is_checked()
  chromium.press(page, page.get_by_role("button", name="Continue"))
  page.wait_for_url("**/correct?*")
  assert page.get_by_label("Correct date").input_value() == "晉武帝泰始元年"
  assert "Months: 13" in page.locator("#reading").inner_text()
  chromium.tab_to(page, page.get_by_label("Note"))
  page.keyboard.type("據別本")
  chromium.press(page, page.get_by_role("button", name="Save"))
  page.wait_for_url("**/record/annals/10*")
  assert "not dated again yet" in page.locator(".notice").inner_text()
  page.goto("/?q=大雪")
  assert "not dated again yet" in page.locator(".mark").inner_text()
  chromium.check_page(page, width)
  chromium.press(page, page.locator(".mark"))
  page.wait_for_url("**#corrections")
  chromium.press(page, page.get_by_role("button", name="Undo"))
  page.wait_for_load_state()
  page.get_by_text("undone").first.wait_for()
  assert page.locator(".notice").count() == 0
