"""Plan of all measured rows: the commands that make them, in order.

A step is one command of the product, in a workdir of its own; the systems that
it measures, and the file of `tests/results` that its rows belong to, are said
beside it. `tests.benchmarks.all_results` runs the plan.
"""

import dataclasses
from collections.abc import Sequence

TRAIN = "python -m ctd_jax.train"
EVALUATE = "python -m ctd_jax.evaluate"
# Rows of the pages are of test alone; configs were chosen on validation.
TEST_ONLY = "--config.eval.splits=('test',)"
NO_BASELINES = "--config.eval.baselines=()"
SHORT_RECORDS = "--config.record_length=48 "

BASELINES = ("bm25", "bm25_timekde", "rules")
SMALL_METHODS = {
  "ft-small": "ft",
  "tempdate-small": "tempdate",
  "tempdate_smooth-small": "tempdate_smooth",
  "ctd-small": "ctd",
  "posterior-small": "posterior",
  "ctd_posterior-small": "ctd_posterior",
}
ABLATION_METHODS = ("ft", "multi", "bias", "ctx", "ctd")
# Published relatives that read dates, and all that they are measured with.
DATE_METHODS = ("date_prefix", "time_tokens")
RELATIVES = (
  *("ft", "multi", "ctd", "posterior", "ctd_posterior", "temps"),
  *DATE_METHODS,
)
REPAIRS = (
  "codebooks",
  "timeline",
  "starts",
  "bias_columns",
  "supervision",
  "balance",
  "negatives",
  "groups",
  "scorer",
)
DATING_EXPERTS = (
  "openings",
  "days",
  "empty",
  "seasons",
  "words",
  "neural",
  "cited",
  "carried",
  "parallels",
  "room",
  "punctuation",
)
ORDERED = ("dating-order", "dating-order-strict")
ORDERED_ONLY = f' "--config.eval.baselines={ORDERED}"'
# Group -> systems whose difference the pages speak of.
COMPARED = {
  "small": (
    ("ctd-small", "ft-small"),
    ("ctd-small", "bm25"),
    ("posterior-small", "ctd-small"),
    ("posterior-small", "rules"),
    ("ctd_posterior-small", "posterior-small"),
  ),
  "e5_small": (("ft-e5-small", "bm25"), ("ctd-e5-small", "ft-e5-small")),
}
# Evidence that is taken away.
EXPLANATIONS = (
  *("without-printed-date", "without-citations", "without-parallels"),
  "without-strongest",
)
# Texts of `chronicle_order` that need no more than the two folders.
CHRONICLES = (
  *("zuozhuan", "zuozhuan_wikisource", "gongyang", "guliang", "tongjian"),
  *("changbian", "houhanji", "shiji", "sanguozhi"),
)
# Chronicle -> works whose dates are hidden, and dated by it.
ACROSS = {"tongjian": ("sanguozhi",), "zuozhuan": ("gongyang", "guliang")}
ACROSS_CTD = "relatives/ctd/seed-42"  # of the small protocol
ACROSS_SYSTEMS = ("parser", "ctd", "dating-fitted")
# Systems that are asked natural questions.
NATURAL = ("bm25", "dating-fitted")
# Systems that `validity` runs on each variant of chronocept/, in its order.
VALIDITY_BASE = (
  *("mean", "median", "lexicon", "tfidf", "nearest"),
  *("linear", "svr", "xgboost", "ffnn", "ffnn-removed", "ffnn-shuffled"),
)
VALIDITY_SYSTEMS = {
  "synthetic_1": (
    *VALIDITY_BASE,
    *("linear-searched", "svr-searched", "xgboost-searched"),
  ),
  "synthetic_2": VALIDITY_BASE,
}
# Variant -> epochs of BERT under the honest protocol.
VALIDITY_BERT_EPOCHS = {"synthetic_1": 3, "synthetic_2": 2}
TRANSFERRED = ("posterior-small", "ft-e5-small", "ctd-e5-small")


@dataclasses.dataclass(frozen=True)
class Step:
  """One command and the rows it makes.

  Attributes:
    name: of the step, and of its workdir.
    command: as typed in a shell at the root of the checkout; `{workdir}` is
      its own folder, `{runs}` that of all steps, `{data}` that of the built
      data sets, `{sources}` that of the source texts, `{outside}` that of the
      texts and calendars from outside, `{complete}` that of the two editions
      of all of 通鑑, without which its step is left out, `{e5}` the unpacked
      encoder; all relative to that root.
    target: stem of the file in `tests/results`; "" for a step without rows.
    systems: whose rows are kept of what the command writes.
    needs: steps that must have ended before.
    rows: where the command writes its rows, below its workdir.
    comparisons: where it writes paired tests, if it does.
  """

  name: str
  command: str
  target: str = ""
  systems: tuple[str, ...] = ()
  needs: tuple[str, ...] = ()
  rows: str = "evaluation/results.json"
  comparisons: str = ""


def _train(name: str, config: str, *overrides: str, needs=("data",)) -> Step:
  return Step(
    name,
    " ".join(
      (
        f"{TRAIN} --config={config} --config.data_dir={{data}}",
        *overrides,
        f'"{TEST_ONLY}" "{NO_BASELINES}" --workdir={{workdir}}',
      )
    ),
    "rebuilt",
    (name,),
    needs,
  )


def _rank(name: str, config: str, target: str, *systems: str, more="") -> Step:
  return Step(
    name,
    f"{EVALUATE} --baselines_only --config={config} --config.data_dir={{data}}"
    f'{more} "{TEST_ONLY}" --workdir={{workdir}}',
    target,
    systems,
    ("data",),
    "evaluation/*/results.json",
  )


def _transfer(name: str) -> Step:
  return Step(
    f"zztj-{name}",
    f"{EVALUATE} --dataset=zztj/rebuilt --data_dir={{data}} "
    f"--workdir={{runs}}/{name}",
    "zztj",
    (name,),
    ("data", name),
    f"../{name}/evaluation/zztj_rebuilt_*/results.json",
  )


def _ablate(
  name: str,
  methods: Sequence[str],
  seeds: str,
  target: str = "ablation",
  systems: tuple[str, ...] = (),
  options: str = SHORT_RECORDS,
) -> Step:
  return Step(
    name,
    "python -m ctd_jax.ablate --config=configs/small.py "
    "--config.data_dir={data} --config.model.encoder.hidden_size=64 "
    f"--config.model.encoder.mlp_size=256 {options}"
    "--config.num_epochs=1 --config.eval_every=408 "
    f'--config.optimizer.learning_rate=1e-3 "{TEST_ONLY}" '
    f"--methods={','.join(methods)} --seeds={seeds} --workdir={{workdir}}",
    target,
    systems or tuple(methods),
    ("data",),
    "results.json",
    "comparisons.tsv",
  )


def _train_in_batches(size: int, rate: str) -> Step:
  """Returns the step of CTD with batches of a size, as many queries in all.

  The rate is the best on validation of those around it.
  """
  queries_per_check = 13_056  # an epoch
  return Step(
    f"batch-{size}",
    "python -m ctd_jax.ablate --config=configs/small.py:ctd "
    "--config.data_dir={data} --config.model.encoder.hidden_size=64 "
    "--config.model.encoder.mlp_size=256 --config.num_epochs=2 "
    f"--config.encode_chunks=16 --seeds=42,1,2 --split=test "
    f"--config.eval_every={round(queries_per_check / size)} "
    f"--grid=batch_size={size} --grid=optimizer.learning_rate={rate} "
    "--workdir={workdir}",
    "batch_size",
    (f"ctd,batch_size={size},optimizer.learning_rate={float(rate):g}",),
    ("data",),
    "results.json",
  )


def _date(name: str, target: str, systems: tuple[str, ...], flags: str) -> Step:
  return Step(
    name,
    "python -m tests.benchmarks.dating --data_dir={data} --split=test "
    f"{flags} --rows={{workdir}}/rows.json",
    target,
    systems,
    ("data",),
    "rows.json",
  )


def _answer(name: str, system: str, flags: str) -> Step:
  return Step(
    name,
    f"python -m ctd_jax.tasks.ctm {flags} --data_dir={{data}} "
    "--workdir={workdir}",
    "ctm",
    (system,),
    ("data",),
    "results.json",
  )


def _date_undated(chronicle: str, works: tuple[str, ...]) -> Step:
  return Step(
    f"across-{chronicle}",
    f"python -m tests.benchmarks.undated_texts --chronicle={chronicle} "
    f"--undated={','.join(works)} --sources={{sources}} --outside={{outside}} "
    f"--systems=parser,counts --ctd={{runs}}/{ACROSS_CTD} "
    "--rows={workdir}/rows.json",
    "across",
    ACROSS_SYSTEMS,
    ("data", "relatives"),
    "rows.json",
  )


def _measure_validity(variant: str) -> list[Step]:
  """Returns the steps of validity curves on a variant of chronocept/.

  The slow models have one seed. The encoder is the config's, from the hub.
  """
  target = f"chronocept_{variant}"
  systems = VALIDITY_SYSTEMS[variant]
  steps = [
    Step(
      f"chronocept-{variant}",
      f"python -m tests.benchmarks.validity --variant={variant} "
      f"--systems={','.join(systems)} --data_dir={{data}} "
      "--workdir={workdir} --rows={workdir}/rows.json",
      target,
      systems,
      ("data",),
      "rows.json",
    )
  ]
  bert_epochs = f" --config.model.epochs={VALIDITY_BERT_EPOCHS[variant]}"
  for model, honest_options in (("bilstm", ""), ("bert", bert_epochs)):
    options = {"honest": honest_options, "paper": ""}
    command = " && ".join(
      f"{TRAIN} --config=configs/chronocept.py:{model},{variant} "
      f"--config.protocol={protocol} --config.data_dir={{data}} "
      f'"--config.seeds=(0,)"{more} --workdir={{workdir}}/{protocol}'
      for protocol, more in options.items()
    )
    steps.append(
      Step(
        f"chronocept-{variant}-{model}",
        command,
        target,
        (model,),
        ("data",),
        "*/results.json",
      )
    )
  return steps


def list_compared_runs(group: str) -> list[str]:
  """Returns the trained runs among the compared systems of a group."""
  systems = dict.fromkeys(system for pair in COMPARED[group] for system in pair)
  return [system for system in systems if system not in BASELINES]


def make_steps() -> list[Step]:
  """Returns all steps, cheap headline rows first, what others need before."""
  build = " && ".join(
    f"python -m ctd_jax_datasets.build {name} --data_dir={{data}}{sources}"
    for name, sources in {
      "chunqiutr/mini": "",
      "chunqiutr/rebuilt": " --sources={sources}",
      "zztj/rebuilt": " --sources={sources}",
      "ctm/qa": "",
      "ctm/ito": "",
      **{f"chronocept/{variant}": "" for variant in VALIDITY_SYSTEMS},
    }.items()
  )
  e5 = ("data", "e5")
  both = (
    *ABLATION_METHODS,
    *(f"{name}-release" for name in ABLATION_METHODS),
  )
  repairs = tuple(f"ctd-no_{name}" for name in REPAIRS)
  return [
    Step("data", build),
    _date(
      "dating",
      "dating",
      ("dating-fitted", "dating-elimination"),
      "--variants=fitted,elimination --seeds=42,1,2 --outside={sources}",
    ),
    _date(
      "dating-strict",
      "dating",
      ("dating-strict",),
      "--variants=strict --seeds=42,1,2 --outside={sources}",
    ),
    Step(
      "front-door",
      "python -m ctd_jax.index --index={workdir}/index --add=chunqiutr/rebuilt "
      "--hide=validation,test --data_dir={data} && "
      "python -m tests.benchmarks.front_door --index={workdir}/index "
      "--data_dir={data} --ask --rows={workdir}/rows.json",
      "ask",
      ("index", "dating-fitted-seed-42"),
      ("data",),
      "rows.json",
    ),
    Step(
      "explanations",
      "python -m tests.benchmarks.explanations --index={runs}/front-door/index "
      "--data_dir={data} --split=test --rows={workdir}/rows.json",
      "ask",
      EXPLANATIONS,
      ("data", "front-door"),
      "rows.json",
    ),
    Step(
      "loose-passages",
      "python -m tests.benchmarks.loose_passages --data_dir={data} "
      "--split=test --rows={workdir}/rows.json",
      "ask",
      ("passage-dater",),
      ("data",),
      "rows.json",
    ),
    Step(
      "natural-questions",
      "python -m tests.benchmarks.natural_questions --data_dir={data} "
      f"--split=test --systems={','.join(NATURAL)} "
      "--rows={workdir}/rows.json",
      "questions",
      NATURAL,
      ("data",),
      "rows.json",
    ),
    *(
      Step(
        f"index-{size}",
        "python -m tests.benchmarks.index_scale --data_dir={data} "
        f"--folder={{workdir}} --records={size} --rows={{workdir}}/rows.json",
        "cost",
        (f"index-{size}",),
        ("data",),
        "rows.json",
      )
      for size in (200_000, 1_000_000)
    ),
    # Needs Locust on the PATH, see the module.
    Step(
      "page-load",
      "python -m tests.benchmarks.page_load "
      "--index={runs}/index-200000/200000.index --rows={workdir}/rows.json",
      "cost",
      ("index-200000",),
      ("index-200000",),
      "rows.json",
    ),
    _rank(
      "dating-order",
      "configs/dating.py",
      "dating_order",
      *ORDERED,
      more=ORDERED_ONLY,
    ),
    Step(
      "zztj-dating-order",
      f"{EVALUATE} --baselines_only --dataset=zztj/rebuilt --data_dir={{data}} "
      f'--config=configs/dating.py{ORDERED_ONLY} "{TEST_ONLY}" '
      "--workdir={workdir}",
      "dating_order_zztj",
      ORDERED,
      ("data",),
      "evaluation/zztj_rebuilt_*/results.json",
    ),
    _rank(
      "baselines",
      "configs/small.py",
      "baselines",
      *BASELINES,
    ),
    _rank(
      "lexical",
      "configs/lexical.py",
      "untrained",
      *("bm25_tuned", "bm25_timekde_tuned", "time_keys"),
    ),
    *(
      _rank(
        f"validity-{dataset.partition('/')[2]}",
        f"configs/validity_prior.py:{dataset}",
        "validity_prior",
        "validity_prior",
      )
      for dataset in ("chunqiutr/mini", "chunqiutr/rebuilt")
    ),
    Step(
      "zztj-baselines",
      f"{EVALUATE} --baselines_only --dataset=zztj/rebuilt --data_dir={{data}} "
      f'--config=configs/small.py "{TEST_ONLY}" --workdir={{workdir}}',
      "zztj",
      BASELINES,
      ("data",),
      "evaluation/zztj_rebuilt_*/results.json",
    ),
    *(_date_undated(*names) for names in ACROSS.items()),
    # None of its months is known.
    _date(
      "zztj-dating",
      "zztj",
      ("dating-fitted",),
      "--name=zztj/rebuilt --variants=fitted",
    ),
    *(
      _answer(f"ctm-{name}", name, f"qa --system={name}")
      for name in ("eras", "chronicles", "oracle")
    ),
    *(
      _answer(f"ito-{name}", name, f"ito --agent={name} --repeats=20")
      for name in ("random", "elimination", "joint", "oracle")
    ),
    _answer("ito-knowing", "knowing-0.7", "ito --agent=knowing --repeats=20"),
    *(
      _answer(
        f"ito-{name}-no_feedback",
        system,
        f"ito --agent={name} --nofeedback --repeats=20",
      )
      for name, system in {
        "permutation": "permutation",
        "knowing": "knowing-0.7",
      }.items()
    ),
    *(step for each in VALIDITY_SYSTEMS for step in _measure_validity(each)),
    *(
      _train(name, f"configs/small.py:{method}")
      for name, method in SMALL_METHODS.items()
    ),
    _train(
      "posterior-small-head",
      "configs/small.py:posterior",
      "--config.query_dates=head --config.name=posterior-small-head",
    ),
    _transfer("posterior-small"),
    _ablate("ablation", both, "42,1,2"),
    # `ctd` of the same seed is what they are compared with.
    _ablate("repairs", ("ctd", *repairs), "42", systems=repairs),
    # A date that a method puts before a record takes no token from its text.
    _ablate("relatives", RELATIVES, "42,1,2", "relatives", options=""),
    _ablate(
      "relatives-keys",  # T1
      DATE_METHODS,
      "42,1,2",
      "relatives",
      options="--config.dates.records=key ",
    ),
    # Rates tried with seed 42: 1e-3, 3e-3; 3e-3, 1e-2, 3e-2.
    _train_in_batches(32, "3e-3"),
    _train_in_batches(1024, "1e-2"),
    _date(
      "dating-experts",
      "dating_ablation",
      tuple(f"dating-fitted-no-{name}" for name in DATING_EXPERTS),
      "--variants=fitted --ablate",
    ),
    _date(
      "dating-stripped",
      "dating_ablation",
      ("dating-fitted-stripped-events",),
      "--variants=fitted --strip=events",
    ),
    Step(
      "e5",
      "python -m tests.benchmarks.unpack_e5 "
      "--dataset=chunqiutr/rebuilt --data_dir={data} --output={e5}",
      needs=("data",),
    ),
    *(
      _train(
        f"{method}-e5-small",
        f"configs/e5_small.py:{method}",
        "--config.model.encoder.source={e5}",
        needs=e5,
      )
      for method in ("ft", "ctd")
    ),
    *(_transfer(name) for name in TRANSFERRED[1:]),
    *(
      dataclasses.replace(
        _rank(
          name,
          f"configs/published.py:{model}",
          target,
          name,
          more=" --config.published.source={e5}",
        ),
        needs=e5,
      )
      for name, model, target in (
        ("zs-e5-small", "e5_small", "rebuilt"),
        ("maxsim", "maxsim_e5_small", "untrained"),
      )
    ),
    *(
      Step(
        f"comparisons-{group}",
        f"python -m tests.benchmarks.compare_runs --group={group} "
        "--runs={runs} --data_dir={data} --output={workdir}/comparisons.tsv",
        needs=(*list_compared_runs(group), "baselines"),
        comparisons="comparisons.tsv",
      )
      for group in COMPARED
    ),
    Step(
      "chronicles",
      "python -m tests.benchmarks.chronicle_order "
      f"--texts={','.join(CHRONICLES)} --sources={{sources}} "
      "--outside={outside} --rows={workdir}/rows.json",
      "chronicles",
      CHRONICLES,
      rows="rows.json",
    ),
    Step(
      "chronicles-complete",
      "python -m tests.benchmarks.chronicle_order --texts=tongjian_complete "
      "--variants=printed --sources={sources} --outside={outside} "
      "--complete={complete} --rows={workdir}/rows.json",
      "chronicles",
      ("tongjian_complete",),
      rows="rows.json",
    ),
  ]
