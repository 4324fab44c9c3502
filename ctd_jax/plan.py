"""Estimates memory, FLOPs and time of a training run, without its devices.

  python -m ctd_jax.plan --config=configs/qwen.py --topology=v5e:4x4
  python -m ctd_jax.plan --config=configs/bert.py --topology=h100:8 \\
    --config.batch_size=1024 --query_tokens=30 --record_tokens=60

The training step is compiled but not run. No data or weights are needed, only
config.json for a published encoder. Steps for TPUs are compiled with libtpu if
it is installed; otherwise CPU devices stand in, and the output says so. In that
case attention uses plain products, and the memory is an upper bound.
"""

from absl import flags

from ctd_jax.utils import command_line

_TOPOLOGY = flags.DEFINE_string(
  "topology",
  None,
  "Devices: a TPU type and its chip grid, a GPU type and count, or cpu and a "
  "count. Example: --topology=v5e:4x4, --topology=h100:8, "
  "--topology=cpu:8",
)
_QUERY_TOKENS = flags.DEFINE_integer(
  "query_tokens",
  None,
  "Tokens per query. Default: the limit, config.query_length. "
  "Example: --query_tokens=30",
  lower_bound=1,
)
_RECORD_TOKENS = flags.DEFINE_integer(
  "record_tokens",
  None,
  "Tokens per record. Default: the limit, config.record_length. "
  "Example: --record_tokens=60",
  lower_bound=1,
)
_VOCAB_SIZE = flags.DEFINE_integer(
  "vocab_size",
  8000,
  "Vocabulary size of an encoder trained from scratch; in a real run it comes "
  "from the data. Example: --vocab_size=5000",
  lower_bound=1,
)
_EFFICIENCY = flags.DEFINE_float(
  "efficiency",
  0.4,
  "Assumed share of the devices' peak performance. Example: --efficiency=0.5",
  lower_bound=0.01,
  upper_bound=1.0,
)
_MEMORY = flags.DEFINE_float(
  "memory",
  None,
  "Memory per device in GiB. Default: the device's own. Example: --memory=40",
  lower_bound=0.01,
)
_LARGEST_BATCH = flags.DEFINE_bool(
  "largest_batch",
  True,
  "Find the largest batch that fits, by compiling the step several times. "
  "Example: --nolargest_batch",
)


def main() -> None:
  """Prints the plan of --config on --topology."""
  # Imported here so that --help and flag errors do not wait for JAX.
  from ctd_jax.training import plan

  config = command_line.CONFIG.value
  topology = plan.parse_topology(_TOPOLOGY.value)
  planner = plan.Planner(
    config,
    topology,
    plan.read_workload(
      config, _QUERY_TOKENS.value, _RECORD_TOKENS.value, _VOCAB_SIZE.value
    ),
    _EFFICIENCY.value,
    _MEMORY.value * 2**30 if _MEMORY.value else topology.memory,
  )
  planner.print_plan(_LARGEST_BATCH.value)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  command_line.run_main(main, required=("config", "topology"))
