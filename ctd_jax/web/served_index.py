"""The index that is served, in its newest state: settings, addresses, caches.

The address of a record is its work and its id, which last; its row changes with
every build.

Axes: n records of a work, K months.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar
from urllib.parse import quote

import numpy as np
from absl import logging
from jaxtyping import Bool, Float, Int, Int32

from ctd_jax.index import asking, database, manifest
from ctd_jax.index.asking import Index
from ctd_jax.index.index_folder import IndexFolder

LOCAL_HOST, DEFAULT_PORT = "127.0.0.1", 8321
# Of one client, where others than this machine may ask.
DEFAULT_REQUESTS_PER_MINUTE = 600
UPLOAD_PATH = "/upload"
_MIN_TOKEN = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebSettings:
  """What a server serves, to whom, and its limits.

  Attributes:
    index: folder of the index.
    encoder: of its vectors, as of `Index.open`.
    host: address that is listened on.
    port: likewise.
    host_names: further names by which the server is called, as behind a proxy.
    token: secret that a reader has to give; None if nobody is asked for one.
    read_only: whether nobody can correct, upload or build anything.
    max_question: characters of a question or a passage.
    max_body: bytes of a request.
    max_upload: bytes of texts that are brought, unpacked.
    seconds: that an answer may take.
    requests_per_minute: of one client; 0 for any number, None for the default.
  """

  index: pathlib.Path
  encoder: str | None = None
  host: str = LOCAL_HOST
  port: int = DEFAULT_PORT
  host_names: tuple[str, ...] = ()
  token: str | None = None
  read_only: bool = False
  max_question: int = 20_000
  max_body: int = 256 * 1024
  max_upload: int = 64 << 20
  seconds: float = 20.0
  requests_per_minute: int | None = None

  def validate(self) -> None:
    """Raises ValueError, naming the flag, for what cannot be served safely."""
    if not self.is_local and self.token is None:
      raise ValueError(
        f"--host={self.host}: other machines could read the index; expected "
        f"--token=SECRET as well, or --host={LOCAL_HOST}"
      )
    if self.token is not None and len(self.token) < _MIN_TOKEN:
      raise ValueError(
        f"--token: {len(self.token)} characters can be guessed; expected "
        f"{_MIN_TOKEN} or more"
      )
    if not 0 <= self.port < 1 << 16:
      raise ValueError(f"--port={self.port}: expected 0 to 65535")
    if self.requests_per_minute is not None and self.requests_per_minute < 0:
      raise ValueError(
        f"--requests_per_minute={self.requests_per_minute}: expected a number "
        "of requests, or 0 for any"
      )

  def max_body_of(self, path: str) -> int:
    """Returns how many bytes a request for a page may have."""
    # The parts of a form have heads.
    return self.max_upload + (1 << 20) if path == UPLOAD_PATH else self.max_body

  @property
  def is_local(self) -> bool:
    """Whether only this machine reaches the server."""
    if self.host == "localhost":
      return True
    try:
      return ipaddress.ip_address(self.host).is_loopback
    except ValueError:
      return False

  @property
  def allowed_hosts(self) -> tuple[str, ...]:
    """Names that a request may be for; others are another site's attempt."""
    names = ["localhost", self.host, *self.host_names]
    if not self.is_local:
      names.append(socket.gethostname())
    return tuple(dict.fromkeys(names))

  @property
  def rate(self) -> int:
    """Requests a minute that one client may make, 0 for any number."""
    if self.requests_per_minute is not None:
      return self.requests_per_minute
    return 0 if self.is_local else DEFAULT_REQUESTS_PER_MINUTE


RECORD_PATH = "/record"
_MAX_WORKS = 1_000  # whose names are remembered as addresses have them
_ROWS_PER_QUERY = 500  # variables that a statement may have


def make_record_path(work: str, record_id: str) -> str:
  """Returns the address of a record.

  Args:
    work: name of its work, which may have slashes.
  """
  return f"{RECORD_PATH}/{_quote_work(work)}/{quote(record_id, safe='')}"


@functools.lru_cache(_MAX_WORKS)
def _quote_work(name: str) -> str:
  return quote(name, safe="/")


def name_record(index: IndexFolder, row: int) -> tuple[str, str]:
  """Returns the work of a record and its id.

  Raises:
    IndexError: if there is none.
  """
  work = index.work_of(row)
  (record_id,) = index.connection.execute(
    "SELECT record_id FROM records WHERE row = ?", (row,)
  ).fetchone()
  return work.name, record_id


def name_records(
  index: IndexFolder, rows: Collection[int]
) -> dict[int, tuple[str, str]]:
  """Returns row -> work and id of many records, as `name_record` does.

  Asked for one by one they cost a page of hundreds most of its time, for
  threads wait for one another at each.
  """
  wanted, names = list(rows), {}
  for start in range(0, len(wanted), _ROWS_PER_QUERY):
    batch = wanted[start : start + _ROWS_PER_QUERY]
    found = index.connection.execute(
      "SELECT row, record_id FROM records WHERE row IN "
      f"({', '.join('?' * len(batch))})",
      batch,
    )
    names |= {
      row: (index.work_of(row).name, record_id)
      for row, record_id in found.fetchall()
    }
  return names


def find_row(index: IndexFolder, work: str, record_id: str) -> int | None:
  """Returns the row of a record; None if there is none."""
  match = index.connection.execute(
    "SELECT min(row) FROM records JOIN works USING (work_id) "
    "WHERE works.name = ? AND record_id = ?",
    (work, record_id),
  ).fetchone()
  return match[0]


def find_row_of_path(index: IndexFolder, path: str) -> int | None:
  """Returns the row of the record of an address; None if there is none.

  Args:
    path: work and id as `make_record_path` joins them, without RECORD_PATH.
  """
  names = [
    work.name for work in index.works if path.startswith(f"{work.name}/")
  ]
  # Both may have slashes: the longest name first.
  for name in sorted(names, key=len, reverse=True):
    row = find_row(index, name, path.removeprefix(f"{name}/"))
    if row is not None:
      return row
  return None


Argument = TypeVar("Argument", bound=Hashable)
Result = TypeVar("Result")

_COMMENTARY = "neg_comment"
_MAX_RESULTS = 128  # of questions that are remembered
# While a build ends, the state before reads rows of the state after.
_SECONDS_TO_REPLACE, _SECONDS_PER_LOOK = 5.0, 0.05
_NO_MARK = (0, 0)  # of a manifest that is not there
_MAX_DENSITIES = 64  # choices of works and kinds that are remembered


class NoIndexError(Exception):
  """There is no index to show yet."""


class ServedIndex:
  """One state of an index, with what its pages compute once.

  Attributes:
    index: that is asked.
    passage_lock: held while a passage is dated; one at a time is as fast.
  """

  def __init__(self, index: Index):
    """Keeps the index."""
    self.index = index
    self.passage_lock = threading.Lock()
    self.find_density = functools.lru_cache(_MAX_DENSITIES)(self._find_density)
    self._remembered: dict[Callable, Callable] = {}

  def remember(
    self,
    function: Callable[[ServedIndex, Argument], Result],
    argument: Argument,
    size: int = _MAX_RESULTS,
  ) -> Result:
    """Returns `function(self, argument)`, from a cache if it is there.

    Args:
      function: of a module; each has a cache of its own.
      size: results of the function that are kept.
    """
    if function not in self._remembered:
      call = functools.lru_cache(size)(functools.partial(function, self))
      # Of two threads that come here at once both use the first cache.
      self._remembered.setdefault(function, call)
    return self._remembered[function](argument)

  def is_current(self) -> bool:
    """Whether the database is in the state that the manifest is of."""
    generation = database.get_property(self.index.connection, "generation")
    return generation == str(self.index.manifest.generation)

  @functools.cached_property
  def years(self) -> Int[np.ndarray, " K"]:
    """Astronomical year of each month, never falling.

    Where calendars change, a month may be counted to a year already past.
    """
    return np.maximum.accumulate(self.index.calendar.years)

  @functools.cached_property
  def best_months(self) -> Int32[np.ndarray, " rows"]:
    """The most probable month of each row; far below 0 where there is none."""
    pairs = self.index.connection.execute(
      "SELECT row, best_month FROM records"
    ).fetchall()
    rows, months = np.array(pairs, np.int32).reshape(-1, 2).T
    best_months = np.full(
      rows.max(initial=0) + 1, np.iinfo(np.int32).min, np.int32
    )
    best_months[rows] = months
    return best_months

  @functools.cached_property
  def coverage(self) -> dict[int, tuple[int, int]]:
    """Work id -> first and last of the most probable months of its records."""
    rows = self.index.connection.execute(
      "SELECT work_id, min(best_month), max(best_month) FROM records "
      "WHERE best_month < ? GROUP BY work_id",
      (len(self.index.calendar),),
    )
    return {work_id: (first, last) for work_id, first, last in rows}

  @functools.cached_property
  def titles(self) -> dict[str, str]:
    """Name of a work -> what readers know it by."""
    return {work.name: work.title or work.name for work in self.index.works}

  @functools.cached_property
  def commentaries(self) -> frozenset[int]:
    """Ids of the works that explain more than they tell."""
    counts = self.index.connection.execute(
      "SELECT work_id, avg(kind = ?) FROM records GROUP BY work_id",
      (_COMMENTARY,),
    )
    return frozenset(work_id for work_id, share in counts if share > 0.5)

  def select_works(
    self, names: tuple[str, ...]
  ) -> tuple[database.IndexedWork, ...]:
    """Returns works by their names or titles; all for none."""
    return tuple(
      work
      for work in self.index.works
      if not names or work.name in names or work.title in names
    )

  def mask_kinds(
    self, works: tuple[str, ...] = (), kinds: tuple[str, ...] = ()
  ) -> Mapping[int, Bool[np.ndarray, " n"]] | None:
    """Returns work id -> which records are of the kinds; see `asking`."""
    return asking.mask_kinds(
      self.index, self.select_works(works), kinds or None
    )

  def _find_density(
    self, works: tuple[str, ...], kinds: tuple[str, ...]
  ) -> Float[np.ndarray, " K"]:
    """Returns the expected number of records of each month."""
    masks = self.mask_kinds(works, kinds)
    num_months = len(self.index.calendar)
    density = np.zeros(num_months)
    for work in self.select_works(works):
      arrays = self.index.posteriors_of(work).arrays
      weights = np.ones(len(arrays))
      if masks is not None:
        weights = masks[work.work_id].astype(float)
      chances = arrays.probabilities * np.repeat(
        weights, np.diff(arrays.starts)
      )
      density += np.bincount(arrays.months, chances, num_months)
      density += float(arrays.rest @ weights) / num_months
    return density


class IndexHolder:
  """Opens an index, and opens it again when its manifest has changed."""

  def __init__(
    self,
    folder: pathlib.Path,
    encoder: str | None = None,
    may_be_new: bool = False,
  ):
    """Opens the index, and the encoder of its vectors if it has any.

    Args:
      may_be_new: whether the index may be yet to be built.

    Raises:
      FileNotFoundError: if there is no index, or no encoder.
      ValueError: naming the file that is damaged; if it is another encoder, or
        the folder can be none of an index.
    """
    self._folder, self._encoder = folder, encoder
    self._lock = threading.Lock()
    self._mark = self._read_mark()
    self._served = None
    if not (may_be_new and self._mark == _NO_MARK and _is_new(folder)):
      self._served = self._open()

  @property
  def opened(self) -> ServedIndex | None:
    """The state that was opened last; None if there is none yet."""
    return self._served

  @property
  def has_index(self) -> bool:
    """Whether there is an index by now."""
    return self.newest is not None

  def get(self) -> ServedIndex:
    """Returns the newest state that can be opened.

    Raises:
      NoIndexError: if the index is yet to be built.
    """
    served = self.newest
    if served is None:
      raise NoIndexError
    return served

  @property
  def newest(self) -> ServedIndex | None:
    """The newest state that can be opened; None if there is none yet."""
    mark = self._read_mark()
    if mark != self._mark and self._lock.acquire(blocking=False):
      try:
        self._reopen(mark)
      finally:
        self._lock.release()
    return self._served

  def wait_for_newer(self, served: ServedIndex | None) -> ServedIndex | None:
    """Returns the state after one that is being replaced; None if it is not.

    Between the end of a build in the database and in the manifest, and until
    files are opened again, an old state reads rows of a new one.

    Args:
      served: the state that something was looked for in.
    """
    deadline = time.monotonic() + _SECONDS_TO_REPLACE
    while time.monotonic() < deadline:
      newest = self.newest
      if newest is not served:
        return newest
      if served is None or served.is_current():
        return None
      time.sleep(_SECONDS_PER_LOOK)
    return None

  def _open(self) -> ServedIndex:
    index = Index.open(self._folder, encoder=self._encoder)
    if index.dense is not None:
      _ = index.dense.encoder  # so that the first question does not wait
    return ServedIndex(index)

  def _reopen(self, mark: tuple[int, int]) -> None:
    try:
      served = self._open()
    except (OSError, ValueError) as error:
      # As while files are being replaced; the state before still answers.
      logging.warning("the index has changed and cannot be opened: %s", error)
      return
    self._served, self._mark = served, mark
    logging.info(
      "generation %d of the index is served", served.index.manifest.generation
    )

  def _read_mark(self) -> tuple[int, int]:
    try:
      status = (self._folder / manifest.MANIFEST_FILE).stat()
    except OSError:
      return _NO_MARK
    return status.st_mtime_ns, status.st_ino


def _is_new(folder: pathlib.Path) -> bool:
  """Whether an index is yet to be built in a folder, and can be."""
  from ctd_jax.index.building import index_builder  # takes seconds to import

  return index_builder.is_new_folder(folder)
