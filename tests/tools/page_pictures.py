"""Takes pictures of all pages, to be looked at after they have changed.

  python -m tests.tools.page_pictures --index=annals --output=pictures

Each page is taken in light and dark, wide and as on a telephone, in every
language of the interface, some as they are printed and one saved and read away
from the server: `PAGE-LANGUAGE-WIDTH-SCHEME.png`. `sheets/PAGE.png` has those
of a page side by side. The pages are those of a copy of the index, which gets a
correction, a text that is brought, and a build.

It needs the extras [web] and [test] and Chromium, which CTD_JAX_CHROMIUM names
or the search path has.
"""

import argparse
import pathlib
import re
import shutil
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator

from playwright import sync_api

from ctd_jax.utils import notes
from tests.web import chromium

MAX_HEIGHT = 3_000  # pixels of a page that are taken
SHEET_HEIGHT = 1_500  # pixels of each page on a sheet
SCHEMES = ("light", "dark")
PRINTED = ("record", "month", "time", "passage")
WORDS = "大赦"  # the query of the search pages
TIMEOUT = 600_000  # milliseconds, of reading and building
# Warnings and all: an era that no calendar has, and a year beyond a reign.
TEXT = """泰始三年春正月，大赦。
夏六月，大水，〓𠀀之書亡。
泰始九十年秋，有星孛于東方。
太和九九年，雨。
冬十月，<script>alert(1)</script>。
"""


def main() -> None:
  """Serves a copy of the index and takes the pictures."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--index", type=pathlib.Path, required=True)
  parser.add_argument("--output", type=pathlib.Path, required=True)
  flags = parser.parse_args()
  if chromium.CHROMIUM is None:
    sys.exit("error: no Chromium; name it by CTD_JAX_CHROMIUM")
  (flags.output / "sheets").mkdir(parents=True, exist_ok=True)
  with (
    tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    chromium.launch() as browser,
  ):
    index = pathlib.Path(folder) / "index"
    shutil.copytree(flags.index, index)
    with chromium.serve(index) as address:
      paths = _prepare(browser, address, pathlib.Path(folder))
      for name, path in paths.items():
        pictures = [*_take(browser, address, name, path, flags.output)]
        _make_sheet(browser, pictures, flags.output / f"sheets/{name}.png")
        print(f"{name}: {len(pictures)} pictures", flush=True)


def _prepare(
  browser: sync_api.Browser, address: str, folder: pathlib.Path
) -> dict[str, str]:
  """Corrects a date, brings a text, has it built; returns name -> path."""
  page = browser.new_page(base_url=address, locale="en-US")
  ask = page.request.get("/api/ask", params={"q": WORDS, "k": 1}).json()
  (record,) = ask["results"]
  work, record_id = record["work"], record["record_id"]
  month = record["date"]["month"]
  record_path = "/record/" + "/".join(
    urllib.parse.quote(part, safe="") for part in (work, record_id)
  )
  added = page.request.post(
    "/api/corrections",
    data={
      "work": work,
      "first_record": record_id,
      "date": month["name"],
      "note": "據別本",
      "name": "某人",
    },
  )
  assert added.ok, added.text()
  page.goto("/corrections")
  page.get_by_role("button", name="Date again").click()
  page.wait_for_url("**/jobs/*")
  job = urllib.parse.urlsplit(page.url).path
  text = folder / "晉起居注.txt"
  text.write_text(TEXT, encoding="utf-8")
  page.goto("/upload")
  page.set_input_files("#files", text)
  page.get_by_role("button", name="Preview").click()
  page.wait_for_selector("form.settings", timeout=TIMEOUT)
  preview = urllib.parse.urlsplit(page.url).path
  text.write_bytes("元年之人也。\n".encode("gb18030") * 40)
  page.goto("/upload")
  page.set_input_files("#files", text)
  page.get_by_role("button", name="Preview").click()
  page.wait_for_selector("form.settings", timeout=TIMEOUT)
  unreadable = urllib.parse.urlsplit(page.url).path
  page.goto(job)
  page.wait_for_selector(".state:not(.waiting, .running)", timeout=TIMEOUT)
  second = {"work": work, "first_record": record_id}
  page.request.delete("/api/corrections/1")
  page.request.post(
    "/api/corrections", data=second | {"date": month["name"], "name": "b"}
  )
  page.context.close()
  form = urllib.parse.urlencode({"work": work, "first": record_id})
  quoted = urllib.parse.quote
  return {
    "start": "/",
    "time": f"/?q={quoted(month['name'])}",
    "words": f"/?q={quoted(WORDS)}",
    "ambiguous": f"/?q={quoted('元年')}",
    "nothing": f"/?q={quoted('飛機')}",
    "month": f"/month/{month['ordinal']}",
    "year": f"/year/{month['ordinal']}",
    "record": record_path,
    "passage": f"/date?q={quoted(record['text'][:300])}",
    "correct": f"/correct?{form}&date={quoted('元年')}",
    "correct_read": f"/correct?{form}&date={quoted(month['name'])}",
    "corrections": "/corrections",
    "jobs": "/jobs",
    "job": job,
    "upload": "/upload",
    "preview": preview,
    "unreadable": unreadable,
    "about": "/about",
    "api": "/api/docs",
    "error404": "/nowhere",
    "error422": f"/?q={quoted('明治三年')}",
    "saved": f"/save{record_path}",
  }


def _take(
  browser: sync_api.Browser,
  address: str,
  name: str,
  path: str,
  output: pathlib.Path,
) -> Iterator[pathlib.Path]:
  """Takes the pictures of a page."""
  for language in notes.LANGUAGES:
    for width, (columns, rows) in chromium.WIDTHS.items():
      for scheme in SCHEMES:
        context = browser.new_context(
          base_url=address,
          viewport={"width": columns, "height": rows},
          color_scheme=scheme,
          locale="en-US",
        )
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        mark = "&" if "?" in path else "?"
        if name == "saved":
          saved = page.request.get(f"{path}{mark}lang={language}").text()
          page.set_content(saved)
        else:
          response = page.goto(f"{path}{mark}lang={language}")
          if response.status >= 500:
            sys.exit(f"error: {path} is answered with {response.status}")
        if page.locator("#plot").count():
          page.wait_for_selector("#plot.live .main-svg")
        if name == "api":
          page.wait_for_selector("#description .operation")
        stem = f"{name}-{language}-{width}-{scheme}"
        yield _save(page, output / f"{stem}.png")
        if name in PRINTED and (width, scheme) == ("wide", "dark"):
          page.emulate_media(media="print", color_scheme="light")
          page.set_viewport_size({"width": 720, "height": 1000})
          yield _save(page, output / f"{name}-{language}-printed.png")
        context.close()


def _save(page: sync_api.Page, path: pathlib.Path) -> pathlib.Path:
  height = page.evaluate("document.documentElement.scrollHeight")
  width = page.evaluate("document.documentElement.scrollWidth")
  size = page.viewport_size
  if width > size["width"]:
    print(f"{path.stem}: {width} pixels wide, of {size['width']}")
  page.screenshot(
    path=path,
    full_page=True,
    clip={
      "x": 0,
      "y": 0,
      "width": size["width"],
      "height": min(height, MAX_HEIGHT),
    },
  )
  return path


def _make_sheet(
  browser: sync_api.Browser, pictures: list[pathlib.Path], path: pathlib.Path
) -> None:
  """Writes pictures side by side, each with its name."""
  figures = "".join(
    f"<figure><figcaption>{re.sub('^[^-]+-', '', picture.stem)}</figcaption>"
    f'<img src="{picture.absolute().as_uri()}"></figure>'
    for picture in pictures
  )
  source = path.with_suffix(".html")
  source.write_text(
    "<!DOCTYPE html><meta charset=utf-8><style>body{margin:8px;background:#888;"
    "display:flex;flex-wrap:wrap;gap:8px;font:12px sans-serif}figure{margin:0}"
    f"img{{display:block;width:auto;max-height:{SHEET_HEIGHT}px;"
    "object-fit:cover;object-position:top}</style>" + figures,
    encoding="utf-8",
  )
  page = browser.new_page(viewport={"width": 3400, "height": 1000})
  page.goto(source.absolute().as_uri())
  page.screenshot(path=path, full_page=True)
  page.close()
  source.unlink()


if __name__ == "__main__":
  main()
