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
  page.wait_for_selector("#plot.live svg.chart")


def read_range(page):
  seen = page.locator("#plot").get_attribute("data-seen")
  return [int(month) for month in seen.split()]


def wait_for_range(page, is_reached):
  for _ in range(50):
    if is_reached(*read_range(page)):
      return read_range(page)
    page.wait_for_timeout(100)
  pytest.fail(f"the timeline stays at {read_range(page)}")


@pytest.mark.parametrize("width", WIDTHS)
def test_timeline_is_moved_zoomed_and_narrows(open_page, width):
  page = open_page("/?q=魯隱公元年", width=width)
  wait_for_timeline(page)
  first, last = read_range(page)
  page.locator("#plot").focus()
  page.keyboard.press("+")
  near = wait_for_range(page, lambda a, b: b - a < last - first)
  page.keyboard.press("ArrowRight")
  wait_for_range(page, lambda a, b: a > near[0])
  page.keyboard.press("Home")
  wait_for_range(page, lambda a, b: b > 3000)
  page.keyboard.press("Enter")
  page.wait_for_url("**from=*")


def test_bars_and_reigns_have_labels_and_narrow_to_their_time(open_page):
  page = open_page("/?q=魯隱公元年")
  wait_for_timeline(page)
  bar = page.locator('#plot a[href*="from=%404&to=%404"]')
  bar.hover(force=True)
  assert (
    page.locator(".tip").inner_text().startswith("魯隱公元年五月 (722 BCE)")
  )
  assert page.locator("#plot a:has(.reign)").count() == 1
  bar.click(force=True)
  page.wait_for_url("**from=*")
  assert page.locator("ol.records > li").count() == 1


def test_mouse_drags_the_timeline_and_opens_no_link(open_page):
  page = open_page("/?q=魯隱公二年")
  wait_for_timeline(page)
  area = page.locator("#plot").bounding_box()
  first = read_range(page)[0]
  y = area["y"] + 60
  page.mouse.move(area["x"] + 100, y)
  page.mouse.down()
  page.mouse.move(area["x"] + 40, y, steps=6)
  page.mouse.up()
  wait_for_range(page, lambda a, b: a > first)
  assert "from=" not in page.url


def test_fingers_zoom_the_timeline(open_page):
  page = open_page("/?q=魯隱公元年", width="narrow", has_touch=True)
  wait_for_timeline(page)
  page.locator("#plot").scroll_into_view_if_needed()
  area = page.locator("#plot").bounding_box()
  first, last = read_range(page)
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
  wait_for_range(page, lambda a, b: b - a < 0.7 * (last - first))


def test_phone_shows_the_first_record_and_the_menu_behind_a_button(open_page):
  page = open_page("/?q=鄭人", width="narrow")
  record = page.locator("ol.records > li").first.bounding_box()
  assert record["y"] + record["height"] < WIDTHS["narrow"][1] / 2
  about = page.get_by_role("link", name="About this index")
  assert not about.is_visible()
  page.locator("details.menu summary").click()
  assert about.is_visible()
  page.keyboard.press("Escape")
  assert not about.is_visible()


def test_text_size_and_direction_are_kept_in_the_browser(open_page):
  page = open_page("/?q=鄭人")
  text = page.locator("ol.records .text").first
  size = "it => parseFloat(getComputedStyle(it).fontSize)"
  before = text.evaluate(size)
  page.locator("details.type summary").click()
  page.get_by_label("large").check()
  page.get_by_label("Vertical lines").check()
  page.goto("/record/annals/annals-2")
  direction = "it => getComputedStyle(it).writingMode"
  assert page.locator("h1.whole").evaluate(direction) == "vertical-rl"
  page.goto("/?q=鄭人")
  assert text.evaluate(size) > before


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
    page.wait_for_selector("#description .operation")
    chromium.check_page(page, width)
    context.close()


def test_pages_are_read_without_a_script(open_page):
  page = open_page("/?q=鄭人", java_script_enabled=False)
  assert page.locator("#plot svg.chart").is_visible()
  bar = page.locator("#plot svg.chart a:has(.above)").first
  bar.locator(".column").click(force=True)
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
