"""Traffic read from compiled programs, and from lines as TPU programs have."""

import functools

import jax
import jax.numpy as jnp
import pytest
from absl import logging
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from ctd_jax.training.plan.collectives import Traffic, read_traffic

FLOAT = 4  # bytes


def compile_on_mesh(function, shape, *split_axes) -> str:
  """Returns the program of a function of one array, on 4 x 2 devices."""
  mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
  sharded = jax.shard_map(
    functools.partial(function),
    mesh=mesh,
    in_specs=PartitionSpec(*split_axes),
    out_specs=PartitionSpec(*split_axes),
    check_vma=False,
  )
  array = jax.ShapeDtypeStruct(
    shape,
    jnp.float32,
    sharding=NamedSharding(mesh, PartitionSpec(*split_axes)),
  )
  return jax.jit(sharded).lower(array).compile().as_text()


def test_a_sum_over_all_devices_or_over_groups_of_them():
  text = compile_on_mesh(lambda x: jax.lax.psum(x, ("a", "b")), (16, 8), "a")
  # [4, 8] of every device, twice 7 of 8 parts.
  assert read_traffic(text, 8) == {
    "all-reduce": Traffic(1, 2 * 7 / 8 * 4 * 8 * FLOAT)
  }
  text = compile_on_mesh(lambda x: jax.lax.psum(x, "b"), (16, 8), "a")
  assert read_traffic(text, 8) == {
    "all-reduce": Traffic(1, 2 * 1 / 2 * 4 * 8 * FLOAT)
  }


def test_a_gathered_array_is_sent_but_for_the_part_of_its_device():
  def gather(x):
    return jax.lax.all_gather(x, "a", tiled=True).sum() + x

  text = compile_on_mesh(gather, (16, 8), "a")
  traffic = read_traffic(text, 8)
  assert traffic["all-gather"] == Traffic(1, 3 / 4 * 16 * 8 * FLOAT)


def test_collectives_in_a_loop_count_as_often_as_it_runs():
  def layers(x):
    def layer(x, _):
      return jnp.tanh(jax.lax.psum(x, "a")), None

    return jax.lax.scan(layer, x, length=5)[0]

  text = compile_on_mesh(layers, (16, 8), "a")
  size = 2 * 3 / 4 * 4 * 8 * FLOAT
  assert read_traffic(text, 8) == {"all-reduce": Traffic(5, 5 * size)}

  def nested(x):
    return jax.lax.fori_loop(0, 3, lambda _, x: layers(x), x)

  text = compile_on_mesh(nested, (16, 8), "a")
  assert read_traffic(text, 8) == {"all-reduce": Traffic(15, 15 * size)}


def test_one_device_sends_nothing():
  text = jax.jit(jnp.matmul).lower(jnp.ones((4, 4)), jnp.ones((4, 4)))
  assert read_traffic(text.compile().as_text(), 1) == {}


# As libtpu writes it: no number of runs beside the loop, and one collective in
# the fusions that run beside it.
TPU_PROGRAM = """\
HloModule jit_step, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(128)} parameter(0)
  %b = f32[]{:T(128)} parameter(1)
  ROOT %c = f32[]{:T(128)} add(%a, %b)
}

%condition.1 (state: (s32[], bf16[4,128])) -> pred[] {
  %limit.3 = s32[]{:T(128)} constant(28)
  %state.1 = (s32[]{:T(128)}, bf16[4,128]{1,0:T(8,128)(2,1)}) parameter(0)
  %count.1 = s32[]{:T(128)} get-tuple-element(%state.1), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%count.1, %limit.3), direction=LT
}

%body.1 (state: (s32[], bf16[4,128])) -> (s32[], bf16[4,128]) {
  %state.2 = (s32[]{:T(128)}, bf16[4,128]{1,0:T(8,128)(2,1)}) parameter(0)
  %x.1 = bf16[4,128]{1,0:T(8,128)(2,1)} get-tuple-element(%state.2), index=1
  %all-reduce.9 = (bf16[4,128]{1,0:T(8,128)(2,1)S(1)}, /*index=1*/f32[]{:T(128)}) all-reduce(%x.1, %y.1), channel_id=1, replica_groups=[2,4]<=[8], to_apply=%sum
  ROOT %next.1 = (s32[]{:T(128)}, bf16[4,128]{1,0:T(8,128)(2,1)}) tuple(%n, %x.2)
}

%start.1 (p: f32[2,3]) -> f32[16,3] {
  %p = f32[2,3]{1,0:T(4,128)} parameter(0)
  ROOT %all-gather.1 = f32[16,3]{1,0:T(4,128)} all-gather(%p), channel_id=2, replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}, dimensions={0}
}

%done.1 (p: f32[2,3]) -> f32[16,3] {
  %p.1 = f32[2,3]{1,0:T(4,128)} parameter(0)
  ROOT %all-gather.2 = f32[16,3]{1,0:T(4,128)} all-gather(%p.1), channel_id=2, replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}, dimensions={0}
}

ENTRY %main (p: f32[2,3]) -> f32[16,3] {
  %p.2 = f32[2,3]{1,0:T(4,128)} parameter(0)
  %while.1 = (s32[]{:T(128)}, bf16[4,128]{1,0:T(8,128)(2,1)}) while(%t), condition=%condition.1, body=%body.1
  %fusion.1 = f32[16,3]{1,0:T(4,128)} fusion(%p.2), kind=kCustom, calls=%start.1
  %all-reduce-start.1 = (f32[32]{0}, f32[32]{0}) all-reduce-start(%z), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%sum
  ROOT %fusion.2 = f32[16,3]{1,0:T(4,128)} fusion(%fusion.1), kind=kCustom, calls=%done.1
}
"""  # noqa: E501


def test_a_program_of_a_tpu():
  in_loop = 2 * 3 / 4 * (4 * 128 * 2 + FLOAT)
  assert read_traffic(TPU_PROGRAM, 8) == {
    "all-reduce": Traffic(29, 28 * in_loop + 2 * 1 / 2 * 32 * FLOAT),
    "all-gather": Traffic(1, 7 / 8 * 16 * 3 * FLOAT),
  }


def test_a_loop_of_unknown_length_counts_once_and_is_told(monkeypatch):
  warnings = []
  monkeypatch.setattr(logging, "warning", lambda *args: warnings.append(args))
  text = TPU_PROGRAM.replace("direction=LT", "direction=NE")
  assert read_traffic(text, 8)["all-reduce"].calls == 2
  [(message, count)] = warnings
  assert "how often a loop runs" in message
  assert count == 1


def test_what_is_no_program_is_an_error():
  with pytest.raises(ValueError, match="no ENTRY"):
    read_traffic("module @jit_step {\n}\n", 8)
