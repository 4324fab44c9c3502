"""What the pages of an index weigh, and how soon a record is seen.

Chromium opens five pages of each kind: once with an empty cache, and once
more. It counts the bytes that come over the network, and the time until the
first record is painted: on the start page the question, on others the first
link to a record or its text. `ctd-jax serve` is started on the index, or
--address names a server that runs already. Rows hold medians.

  python -m tests.benchmarks.page_weight --index=INDEX [--rows=FILE]

CTD_JAX_CHROMIUM names Chromium, or the search path has it.
"""

import collections
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from playwright import sync_api

from ctd_jax.index.asking import Index
from tests.benchmarks import page_load, result_rows
from tests.web import chromium

_PAGES = 5  # of each kind
_SEED = 1
_TIMEOUT_MS = 60_000
_KINDS = ("search time", "search words", "passage", "month", "record")
_SHOWN = "main a[href*='/record/'], main h1.whole"
_SHOWN_OF = {"start": "main form"}
# Two frames after it is there it is painted. A passage may have no record.
_WATCH = """const observer = new MutationObserver(() => {
  if (document.querySelector("%s") || document.readyState !== "loading") {
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => {
      window.shown = performance.now();
    }));
  }
});
document.addEventListener("DOMContentLoaded", () => document.body.append(""));
observer.observe(document, { childList: true, subtree: true });"""


def draw_paths(index: Index) -> dict[str, list[str]]:
  """Returns kind of page -> addresses without host."""
  drawn = page_load.draw_addresses(index, _SEED)
  spans = [int(path.rpartition("/")[2]) for path in drawn["month"]]
  compared = [
    f"/compare?{urlencode({'from': f'@{first}', 'to': f'@{first + 11}'})}"
    for first in spans
  ]
  kinds = {kind: drawn[kind] for kind in _KINDS}
  kinds = {"start": ["/"] * _PAGES, **kinds, "compare": compared}
  return {kind: paths[-_PAGES:] for kind, paths in kinds.items()}


def visit(page: sync_api.Page, address: str) -> tuple[float, float]:
  """Opens an address; returns kB transferred and ms to the first record."""
  sizes: list[float] = []
  session = page.context.new_cdp_session(page)
  session.send("Network.enable")
  session.on(
    "Network.loadingFinished",
    lambda event: sizes.append(event["encodedDataLength"]),
  )
  page.goto(address, wait_until="networkidle")
  page.wait_for_function("window.shown", timeout=_TIMEOUT_MS)
  session.detach()
  return sum(sizes) / 1000, page.evaluate("window.shown")


def measure(
  address: str, paths: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
  """Returns the medians of each kind of page of a server."""
  figures = {}
  with chromium.launch() as browser:
    for kind, of_kind in paths.items():
      values = collections.defaultdict(list)
      for path in of_kind:
        context = browser.new_context(locale="en-US", bypass_csp=True)
        context.add_init_script(_WATCH % _SHOWN_OF.get(kind, _SHOWN))
        page = context.new_page()
        for end in ("", "_again"):
          kilobytes, shown = visit(page, address + path)
          values[f"kilobytes{end}"].append(kilobytes)
          values[f"shown_ms{end}"].append(shown)
        context.close()
      figures[kind] = {
        name: statistics.median(it) for name, it in values.items()
      } | {"load": result_rows.read_load()}
  return figures


def main() -> None:
  """Measures the pages of an index."""
  parser = result_rows.make_index_parser(__doc__)
  parser.add_argument("--address", help="of a server that runs already")
  flags = parser.parse_args()
  index = Index.open(flags.index)
  paths = draw_paths(index)
  begun = time.monotonic()
  if flags.address:
    figures = measure(flags.address, paths)
  else:
    with tempfile.TemporaryDirectory() as folder:
      log = pathlib.Path(folder, "server.log")
      server = page_load.Server(flags.index, log)
      try:
        figures = measure(server.address, paths)
      finally:
        server.stop()
  about = result_rows.describe_run("page_weight", time.monotonic() - begun)
  system = result_rows.name_system(index.num_records)
  rows = [
    row
    for kind, values in figures.items()
    for row in result_rows.make_cost_rows(
      about, flags.name, system, "browser", values, kind
    )
  ]
  result_rows.print_rows(rows)
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  sys.exit(main())
