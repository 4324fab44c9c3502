"""A date is corrected in a browser: read, saved, dated again, undone."""

import pytest

from tests.web import annals_index, chromium
from tests.web.chromium import WIDTHS

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = chromium.MARKS

RECORD = "/record/annals/4"
BUILD_MILLISECONDS = 400_000


@pytest.fixture(scope="module")
def address(tmp_path_factory):
  folder = tmp_path_factory.mktemp("corrected")
  index = annals_index.build_index(folder, use_passages=False)
  with chromium.serve(index) as address:
    yield address


def undo_all(page):
  page.goto("/corrections")
  while page.get_by_role("button", name="Undo").count():
    page.get_by_role("button", name="Undo").first.click()
    page.wait_for_load_state()


def test_date_is_corrected_and_dated_again(open_page):
  page = open_page(RECORD)
  assert "泰始元年五月" in page.locator(".date").first.inner_text()
  page.goto("/correct?work=annals&first=4&date=泰始元年六月")
  page.get_by_label("Note").fill("據別本")
  page.get_by_label("Your name").fill("某人")
  page.get_by_role("button", name="Save").press("Enter")
  page.wait_for_url("**" + RECORD + "*")
  assert "not dated again yet" in page.locator(".notice").inner_text()
  assert "泰始元年五月" in page.locator(".date").first.inner_text()
  look_at_all(open_page)
  page.get_by_role("button", name="Date again").click()
  page.wait_for_url("**/jobs/*")
  chromium.check_page(page, "wide")
  page.wait_for_selector(".state.done", timeout=BUILD_MILLISECONDS)
  page.goto(RECORD)
  assert "泰始元年六月" in page.locator(".date").first.inner_text()
  assert "A reader set this date." in page.locator(".why").first.inner_text()
  assert "據別本" in page.locator(".corrections").inner_text()
  # What stands after it cannot be of the month before any more.
  page.goto("/record/annals/5")
  assert "泰始元年六月" in page.locator(".date").first.inner_text()
  undo_all(page)
  page.goto(RECORD)
  assert "was undone" in page.locator(".notice").inner_text()


def look_at_all(open_page):
  for width in WIDTHS:
    for scheme in ("light", "dark"):
      for path in (RECORD, "/corrections", "/jobs"):
        page = open_page(path, width=width, scheme=scheme)
        if path == RECORD:
          page.get_by_text("Correct this date").click()
        chromium.check_page(page, width)
