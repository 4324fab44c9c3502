"""Builds of uploads: their jobs, and whether they have become works."""

from __future__ import annotations

from collections.abc import Iterable

from absl import logging

from ctd_jax.index.building import staged_works
from ctd_jax.web.jobs import job_files
from ctd_jax.web.jobs.job_runner import Job
from ctd_jax.web.served_index import ServedIndex
from ctd_jax.web.uploads.upload_store import (
  ACCEPTED,
  PREVIEW,
  Upload,
  UploadStore,
)


def name_subject(upload: Upload) -> str:
  """Returns the subject of the jobs that build an upload."""
  return f"upload/{upload.name}"


def list_builds(jobs: Iterable[Job], upload: Upload) -> list[Job]:
  """Returns the jobs of an upload, also those that were started again.

  Args:
    jobs: the newest first.
    upload: whose name another one may have had before.
  """
  return [
    job
    for job in jobs
    if job.subject == name_subject(upload) and job.created >= upload.created
  ]


def is_built(builds: Iterable[Job]) -> bool:
  """Whether a build of an upload has ended well."""
  return any(job.state == job_files.DONE for job in builds)


def settle(
  store: UploadStore,
  upload: Upload,
  builds: list[Job],
  served: ServedIndex | None,
) -> Upload:
  """Returns an upload in the state that its builds have left it in.

  It is a preview again if all of them have ended and none ended well, unless
  the index has its works all the same: a job may be ended after it has written.

  Args:
    store: of the upload.
    upload: as it was last written.
    builds: of it; those of long ago are not known any more.
    served: the index; None if there is none.
  """
  if not builds:
    return upload
  is_kept = (
    is_built(builds)
    or any(job.is_active for job in builds)
    or (served is not None and _has_works(served, store, upload))
  )
  state = ACCEPTED if is_kept else PREVIEW
  return upload if upload.state == state else store.change(upload, state=state)


def _has_works(served: ServedIndex, store: UploadStore, upload: Upload) -> bool:
  folder = store.folder_of(upload)
  for work in served.index.works:
    try:
      source = staged_works.read_dated_with(
        served.index.folder / work.folder
      ).source
    except ValueError as error:  # that it is not of the upload is not known
      logging.warning("upload %s is kept: %s", upload.name, error)
      return True
    path = source and source.find_path(served.index.folder.absolute())
    if path and path.is_relative_to(folder):
      return True
  return False
