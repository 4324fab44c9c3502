"""Launch scripts with locked releases, images and arrays of Slurm."""

import shlex

import pytest

from tests.utils.clone import SLURM, Clone

CONFIG = "--config=configs/tiny.py"
XPK = {"XPK_CLUSTER": "tpus", "XPK_TPU_TYPE": "v5litepod-16"}


@pytest.fixture
def clone(tmp_path):
  return Clone(tmp_path)


def test_locked_releases_are_installed_by_hash_before_the_package(clone):
  clone.activate()
  clone.env |= {"CTD_JAX_LOCKED": "1", "CTD_JAX_EXTRAS": "web cuda"}
  clone.run("launch/local.sh", CONFIG)
  folder = clone.root / "constraints"
  build, locks, package, train = clone.calls()
  assert build.endswith(f"--require-hashes --requirement={folder}/build.txt")
  # web is in the first file, with all that the product imports.
  assert locks.endswith(
    "--require-hashes --no-build-isolation "
    f"--requirement={folder}/py3.11.txt --requirement={folder}/py3.11-cuda.txt"
  )
  assert package.endswith(
    f"--no-build-isolation --no-deps --editable {clone.root}[web,cuda]"
  )
  assert "ctd_jax.train" in train


def test_locked_tests_have_a_lock_of_their_own(clone):
  clone.activate()
  clone.env["CTD_JAX_LOCKED"] = "1"
  clone.run("launch/test.sh")
  folder = clone.root / "constraints"
  assert clone.calls()[1].endswith(
    f"--requirement={folder}/py3.11.txt --requirement={folder}/py3.11-test.txt"
  )


def test_a_changed_lock_installs_again(clone):
  clone.activate()
  clone.env["CTD_JAX_LOCKED"] = "1"
  clone.run("launch/local.sh", CONFIG)
  clone.calls()
  clone.run("launch/local.sh", CONFIG)
  assert len(clone.calls()) == 1
  with (clone.root / "constraints/py3.11.txt").open("a") as file:
    file.write("# one more\n")
  clone.run("launch/local.sh", CONFIG)
  assert len(clone.calls()) == 4
  # What is installed may differ from the newest releases, and the reverse.
  clone.env["CTD_JAX_LOCKED"] = "0"
  clone.run("launch/local.sh", CONFIG)
  assert "--require-hashes" not in clone.calls()[0]


@pytest.mark.parametrize(
  ("extras", "missing", "message"),
  [
    ("tf", None, "the extra tf is not locked"),
    ("", "py3.11.txt", "no py3.11.txt in"),
  ],
)
def test_what_is_not_locked_is_named(clone, extras, missing, message):
  clone.activate()
  clone.env |= {"CTD_JAX_LOCKED": "1", "CTD_JAX_EXTRAS": extras}
  if missing:
    (clone.root / "constraints" / missing).unlink()
  assert message in clone.refuse("launch/local.sh", CONFIG)


def test_slurm_runs_an_apptainer_image_and_installs_nothing(clone, tmp_path):
  tfds, more = tmp_path / "tfds", tmp_path / "more"
  clone.place_slurm(
    CTD_JAX_IMAGE="/images/cuda.sif",
    TFDS_DATA_DIR=str(tfds),
    CTD_JAX_MOUNTS=str(more),
  )
  clone.run(SLURM, CONFIG)
  runs = clone.root / "runs/tiny"
  mounts = ",".join(f"{path}:{path}" for path in (runs, tfds, more))
  assert clone.calls() == [
    f"srun --kill-on-bad-exit=0 --wait=120 apptainer exec --nv --bind={mounts} "
    f"--pwd=/tmp /images/cuda.sif ctd-jax train {CONFIG} --workdir={runs}"
  ]
  assert runs.is_dir()  # what is mounted must exist
  assert tfds.is_dir()


def test_slurm_runs_any_other_image_by_pyxis(clone):
  image, workdir = "registry.example#lab/ctd_jax:cuda", "--workdir=gs://b/x"
  clone.place_slurm(CTD_JAX_IMAGE=image, TFDS_DATA_DIR="/tmp")
  clone.run(SLURM, CONFIG, workdir)
  assert clone.calls() == [
    f"srun --kill-on-bad-exit=0 --wait=120 --container-image={image} "
    "--container-mounts=/tmp:/tmp --container-workdir=/tmp "
    f"ctd-jax train {CONFIG} {workdir}"
  ]


def test_a_relative_folder_in_an_image_is_refused(clone):
  clone.place_slurm(CTD_JAX_IMAGE="a.sif")
  error = clone.refuse(SLURM, CONFIG, "--workdir=runs/x")
  assert "runs/x: an image needs whole paths" in error


GRID = ("--grid=batch_size=8,16", "--workdir=/w")


def test_a_task_of_an_array_trains_a_cell(clone):
  python = clone.place_slurm(SLURM_ARRAY_TASK_ID="1")
  clone.run(SLURM, CONFIG, *GRID)
  assert clone.calls()[-1] == (
    f"srun --kill-on-bad-exit=0 --wait=120 {python} -m ctd_jax.ablate "
    f"{CONFIG} {' '.join(GRID)} --cell=1"
  )


def test_the_last_job_collects_in_one_process(clone):
  python = clone.place_slurm()
  clone.run(SLURM, CONFIG, *GRID, "--collect")
  assert clone.calls()[-1] == (
    f"srun --nodes=1 --ntasks=1 {python} -m ctd_jax.ablate "
    f"{CONFIG} {' '.join(GRID)} --collect"
  )


@pytest.mark.parametrize(
  ("arguments", "message"),
  [(GRID, "sbatch --array=0-N"), (GRID[:1], "give --workdir")],
)
def test_a_grid_without_array_or_folder_is_refused(clone, arguments, message):
  clone.place_slurm()
  assert message in clone.refuse(SLURM, CONFIG, *arguments)


def test_xpk_runs_an_image_instead_of_installing(clone):
  clone.tool("xpk")
  clone.env |= XPK | {"CTD_JAX_IMAGE": "place/ctd_jax:tpu"}
  args = (CONFIG, "--workdir=/mnt/my runs/x")
  printed = clone.run("launch/xpk.sh", *args, "--dry-run")
  words = shlex.split(printed.stdout)
  assert "--docker-image=place/ctd_jax:tpu" in words
  assert not [word for word in words if word.startswith("--script-dir")]
  command = words[-1].removeprefix("--command=")
  assert shlex.split(command) == ["ctd-jax", "train", "--distributed", *args]
