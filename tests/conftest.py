"""Setup of every test: CPU, eight devices, no network, checked array shapes.

Environment variables rather than `jax.config`, because tests also start other
processes; set here, before anything imports JAX.
"""

import contextlib
import fcntl
import os
import pathlib
import sys
from collections.abc import Callable, Iterator

import jaxtyping
import pytest
import threadpoolctl
from absl import flags

from tests.tools import processor_time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folder of sources -> package that it is installed as.
PACKAGES = {
  "ctd_jax": "ctd_jax",
  "data": "ctd_jax_datasets",
  "configs": "ctd_jax_configs",
}

# Stretches of memory that a process may have, by default 65,530 on Linux: a
# compiled program has some, and beyond it a process is killed.
MEMORY_MAP = pathlib.Path("/proc/self/maps")
MOST_STRETCHES = 30_000

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
os.environ["HF_HUB_OFFLINE"] = "1"
# Compiled functions are kept between test runs. Set here and not when pytest
# is configured: a conftest.py further down may import JAX before.
COMPILATION_CACHE = ROOT / ".pytest_cache" / "d" / "jax"
COMPILATION_CACHE.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILATION_CACHE))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def find_annotated_modules() -> list[str]:
  """Returns the modules that annotate arrays with their shapes."""
  modules = []
  for folder, package in PACKAGES.items():
    for path in (ROOT / folder).rglob("*.py"):
      if "from jaxtyping import" in path.read_text(encoding="utf-8"):
        parts = path.relative_to(ROOT / folder).with_suffix("").parts
        modules.append(".".join((package, *parts)))
  return modules


# Before any test imports them: every call then checks shapes and types.
jaxtyping.install_import_hook(find_annotated_modules(), "beartype.beartype")


def pytest_addoption(parser: pytest.Parser) -> None:
  """Adds the options of this project."""
  parser.addoption(
    "--parity",
    action="store_true",
    help="also compare with the published implementations (extra [parity])",
  )
  parser.addoption(
    "--durations-cpu",
    type=int,
    default=0,
    metavar="N",
    help="list the N tests and fixtures that take most processor time",
  )
  parser.addoption(
    "--cpu-limit",
    type=float,
    metavar="S",
    help="fail if a test not marked slow takes over S seconds of processor",
  )


def pytest_ignore_collect(
  collection_path: pathlib.Path, config: pytest.Config
) -> bool | None:
  """Leaves out what needs torch, unless it is asked for."""
  if collection_path.name == "parity" and not config.getoption("parity"):
    return True
  return None


def pytest_collection_modifyitems(
  config: pytest.Config, items: list[pytest.Item]
) -> None:
  """Skips what needs TensorFlow or Beam, unless it is asked for by -m."""
  for name in ("tf", "beam"):
    reason = f"launch/test.sh --{name} runs it"
    for item in items:
      if config.getoption("-m") != name and item.get_closest_marker(name):
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config: pytest.Config) -> None:
  """Marks flags as parsed: grain and TFDS read what app.run() would parse."""
  flags.FLAGS.mark_as_parsed()
  config.pluginmanager.register(
    processor_time.ProcessorTime(
      config.getoption("durations_cpu"), config.getoption("cpu_limit")
    )
  )


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
  """Keeps BLAS to one thread: the matrices are small and the cores shared.

  L-BFGS on a few hundred parameters is ten times slower where several threads
  wait for one another.
  """
  with threadpoolctl.threadpool_limits(1):
    yield


@pytest.fixture(autouse=True, scope="module")
def unload_programs() -> Iterator[None]:
  """Lets go of the programs of other files where there are too many."""
  yield
  if "jax" in sys.modules and MEMORY_MAP.exists():
    with MEMORY_MAP.open(encoding="utf-8") as lines:
      num_stretches = sum(1 for _ in lines)
    if num_stretches > MOST_STRETCHES:
      sys.modules["jax"].clear_caches()


# Shared fixtures import what they need when they are asked for: JAX is set up
# above, and a test of numerals needs none of it.


@pytest.fixture(scope="module")  # `unload_programs` may drop it behind each
def compiled_decoder() -> None:
  """Dates texts, so that no test is charged for compiling the decoder."""
  from ctd_jax.dating.chronicle import calendar, chronicle_dating
  from tests.dating.chronicles import records_of

  # The decoder is compiled for one life and for several.
  life = "公諱某。生於乾道三年五月七日，卒於嘉定九年三月二日。"
  for lines in ([life], [life, "夫人姓李氏。淳熙二年八月五日，卒。"]):
    chronicle_dating.date_records(
      records_of(lines), calendar.load_calendar("南宋")
    )


@pytest.fixture(scope="session")
def build_once(tmp_path_factory) -> Callable[..., pathlib.Path]:
  """Returns `build(name, write)`, which has one process write a folder.

  The processes of pytest-xdist share the folder. Tests do not change it.
  """
  parent = tmp_path_factory.getbasetemp()
  if "PYTEST_XDIST_WORKER" in os.environ:
    parent = parent.parent

  def build(name: str, write: Callable[[pathlib.Path], object]) -> pathlib.Path:
    folder, done = parent / "shared" / name, parent / "shared" / f"{name}.done"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
      fcntl.flock(lock, fcntl.LOCK_EX)
      if not done.exists():
        write(folder)
        done.touch()
    return folder

  return build


@contextlib.contextmanager
def _compile_quickly() -> Iterator[None]:
  import jax

  name = "jax_disable_most_optimizations"
  before = jax.config.values[name]
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv(name.upper(), "1")
    jax.config.update(name, True)
    try:
      yield
    finally:
      jax.config.update(name, before)


@pytest.fixture(scope="module")
def quick_compile() -> Iterator[None]:
  """Has XLA compile quickly rather than well, here and in child processes.

  For tests whose models are small and whose time is spent compiling. Not for
  golden values.
  """
  with _compile_quickly():
    yield


@pytest.fixture(scope="module")
def small_world() -> Iterator[None]:
  """One device and the synthetic benchmark instead of a built one."""
  from tests.training import synthetic_run

  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    yield


@pytest.fixture(scope="session")
def trained_config():
  """Config of `trained_run`."""
  from tests.training import synthetic_run

  config = synthetic_run.config("ft")
  config.eval_every = config.keep_latest = 1
  config.num_epochs = 0.25
  return config


@pytest.fixture(scope="session")
def trained_run(trained_config, build_once) -> pathlib.Path:
  """Workdir of an evaluated run of one step."""
  from ctd_jax.experiments import training_run
  from tests.training import synthetic_run

  def train(folder):
    with pytest.MonkeyPatch.context() as patch, _compile_quickly():
      synthetic_run.install(patch.setattr)
      training_run.train_and_evaluate(trained_config, folder)

  return build_once("trained_run", train)


@pytest.fixture(scope="session")
def mini_data_dir(build_once) -> pathlib.Path:
  """Folder of data sets that holds chunqiutr/mini."""
  from ctd_jax_datasets import build

  return build_once(
    "mini_data", lambda folder: build.build_dataset("chunqiutr/mini", folder)
  )


@pytest.fixture(scope="session")
def index_folder(build_once) -> pathlib.Path:
  """Folder of a small index, written by hand."""
  from tests.index import small_index

  return build_once("small.index", small_index.write_index)
