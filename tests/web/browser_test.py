"""Tasks of a reader in a browser, from start to end.

Skipped where no Chromium is installed. CTD_JAX_CHROMIUM names its program.
"""

import pytest

from tests.web import chromium
from tests.web.chromium import WIDTHS
from tests.web.conftest import READ_PAGES

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = chromium.MARKS


@pytest.fixture(scope="module")
def address(index_folder):
  with chromium.serve(index_folder) as address:
    yield address


def wait_for_timeline(page):
  page.wait_for_selector("#plot.live .main-svg")


def read_range(page):
  return page.evaluate(
    "() => document.querySelector('.drawing').layout.xaxis.range.map(Number)"
  )


@pytest.mark.parametrize("width", WIDTHS)
def test_timeline_is_moved_zoomed_and_narrows(open_page, width):
  page = open_page("/?q=魯隱公元年", width=width)
  wait_for_timeline(page)
  plot = page.locator("#plot")
  assert page.locator("#plot svg.chart").is_hidden()

  labels = page.locator(".drawing :is(.ytick, .y2tick) text")
  assert labels.all_text_contents().count("0") == 1
  before = read_range(page)
  plot.focus()
  page.keyboard.press("+")
  page.wait_for_timeout(600)
  nearer = read_range(page)
  assert nearer[1] - nearer[0] < before[1] - before[0]
  page.keyboard.press("ArrowRight")
  page.wait_for_timeout(600)
  assert read_range(page)[0] > nearer[0]
  page.keyboard.press("Home")
  page.wait_for_timeout(600)
  assert read_range(page)[1] > 3000
  page.keyboard.press("Enter")
  page.wait_for_url("**from=*")


def test_click_on_a_bar_narrows_to_its_time(open_page):
  page = open_page("/?q=魯隱公元年")
  wait_for_timeline(page)
  area = page.locator(".drawing .nsewdrag").first.bounding_box()
  share = (4 - -0.5) / (23.5 - -0.5)  # the fifth month of the months 0 to 23
  page.mouse.move(area["x"] + share * area["width"], area["y"] + 60)
  page.mouse.down()
  page.mouse.up()
  page.wait_for_url("**from=*")
  assert page.locator("ol.records > li").count() == 1


def test_fingers_zoom_the_timeline(open_page):
  page = open_page("/?q=魯隱公元年", width="narrow", has_touch=True)
  wait_for_timeline(page)
  area = page.locator(".drawing").bounding_box()
  before = read_range(page)
  client = page.context.new_cdp_session(page)
  middle = area["x"] + area["width"] / 2
  y = area["y"] + 60

  def touch(kind, *places):
    points = [{"x": x, "y": y, "id": n} for n, x in enumerate(places)]
    event = {"type": kind, "touchPoints": points}
    client.send("Input.dispatchTouchEvent", event)

  touch("touchStart", middle - 20, middle + 20)
  for gap in (30, 45, 60, 80, 100):
    touch("touchMove", middle - gap, middle + gap)
  touch("touchEnd")
  page.wait_for_timeout(600)
  after = read_range(page)
  assert after[1] - after[0] < 0.7 * (before[1] - before[0])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", READ_PAGES)
def test_pages_fit_and_have_no_serious_finding(open_page, path, width):
  for scheme in ("light", "dark"):
    page = open_page(path, width=width, scheme=scheme)
    if path.startswith("/?q="):
      wait_for_timeline(page)
    chromium.check_page(page, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_of_errors_and_of_the_api_have_no_serious_finding(
  browser, address, width
):
  size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
  for scheme in ("light", "dark"):
    # Chromium logs an error for each of these; `open_page` would fail.
    context = browser.new_context(
      base_url=address, viewport=size, color_scheme=scheme, locale="en-US"
    )
    page = context.new_page()
    for path in ("/nowhere", "/?q=明治三年"):
      assert page.goto(path).status in (404, 422)
      chromium.check_page(page, width)
    page.goto("/api/docs")
    page.wait_for_selector("#description .opblock")
    # Its summaries are buttons that hold buttons.
    chromium.check_page(page, width, known=("nested-interactive",))
    context.close()


def test_pages_are_read_without_a_script(open_page):
  page = open_page("/?q=鄭人", java_script_enabled=False)
  assert page.locator("#plot svg.chart").is_visible()
  bar = page.locator("#plot svg.chart a").nth(1).locator("rect")
  bar.first.click(force=True)
  page.wait_for_url("**from=*")
  page.get_by_label("A time, words, or a passage").fill("魯隱公元年五月")
  page.get_by_role("button", name="Search").click()
  page.wait_for_url("**q=*")
  assert page.locator("ol.records > li").count() >= 1


def test_saved_page_is_read_away_from_the_server(open_page, tmp_path):
  page = open_page("/record/annals/annals-2")
  with page.expect_download() as download:
    page.get_by_role("link", name="Save this page").click()
  path = tmp_path / "page.html"
  download.value.save_as(path)
  requests = []
  page.on("request", lambda request: requests.append(request.url))
  page.goto(path.as_uri())
  assert "鄭人克段" in page.locator("h1").inner_text()
  style = "body => getComputedStyle(body).maxWidth"
  assert page.locator("body").evaluate(style) != "none"
  assert not [url for url in requests if url.startswith("http")]
