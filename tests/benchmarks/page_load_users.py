"""Readers of the pages, as Locust runs them for `page_load`.

Locust imports this in its own environment, where nothing of the project is
installed. What they open stands in the file that PAGE_LOAD_REQUESTS names;
each opens a page every PAGE_LOAD_SECONDS seconds in the mean, at random.
"""

import json
import os
import random
import time

from locust import HttpUser, task

with open(os.environ["PAGE_LOAD_REQUESTS"], encoding="utf-8") as file:
  _REQUESTS = json.load(file)
_ADDRESSES = _REQUESTS["addresses"]
_KINDS = list(_ADDRESSES)
_SHARES = [_REQUESTS["shares"][kind] for kind in _KINDS]
_SECONDS = float(os.environ["PAGE_LOAD_SECONDS"])


class Reader(HttpUser):
  """A reader who opens one page after the other."""

  def on_start(self):
    """Begins at a time of their own."""
    self.next_at = time.monotonic() + random.uniform(0, _SECONDS)
    time.sleep(self.next_at - time.monotonic())

  def wait_time(self):
    """Returns the seconds until the next page; none if the last was late."""
    self.next_at += random.uniform(0, 2 * _SECONDS)
    return max(self.next_at - time.monotonic(), 0)

  @task
  def open_page(self):
    """Opens a page."""
    kind = random.choices(_KINDS, _SHARES)[0]
    self.client.get(random.choice(_ADDRESSES[kind]), name=kind)
