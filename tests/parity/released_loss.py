"""The released loss in real processes of torch, for `released_loss_test`.

As the released code does, each process gathers the unit vectors of all without
gradient and adds the bias to the pairs of its own share;
DistributedDataParallel averages the gradients.

Axes: Q queries of a process, D features, F frequencies.
"""

import os
import pathlib

import numpy as np
import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

TEMPERATURE = 0.05
FREQUENCIES = 4


class Encoder(nn.Module):
  """A linear encoder, the scalar of its vectors, and the bias of offsets."""

  def __init__(self, arrays: dict[str, np.ndarray]):
    """Makes the parameters of `arrays`, by name and in their order."""
    super().__init__()
    self.names = list(arrays)
    self.weights = nn.ParameterList(
      nn.Parameter(torch.tensor(array)) for array in arrays.values()
    )

  def forward(self, query, positive, negative):
    """Returns unit vectors of the three, and the bias of the pairs, [Q, Q]."""
    weights = dict(zip(self.names, self.weights, strict=True))
    vectors = [
      functional.normalize(texts @ weights["projection"], dim=1)
      for texts in (query, positive, negative)
    ]
    query_u, positive_u = (
      torch.sigmoid(texts @ weights["scalar"]) for texts in (query, positive)
    )
    exponents = torch.arange(FREQUENCIES) / (FREQUENCIES - 1)
    frequencies = (1e-4**exponents).to(query.dtype)
    delta = (positive_u[None, :] - query_u[:, None]).clamp(-1, 1)
    angles = delta[..., None] * frequencies
    features = torch.cat([angles.sin(), angles.cos()], dim=-1)
    hidden = torch.relu(
      features @ weights["hidden_kernel"] + weights["hidden_bias"]
    )
    value = hidden @ weights["out_kernel"] + weights["out_bias"]
    return *vectors, weights["scale"] * value[..., 0]


def compute_direction(logits, is_positive):
  """Returns -log of the positives' summed probability, mean over rows."""
  positive = logits.masked_fill(~is_positive, -torch.inf)
  return (logits.logsumexp(1) - positive.logsumexp(1)).mean()


def gather(values):
  """Returns the values of all processes, without gradient."""
  copies = [
    torch.empty_like(values) for _ in range(distributed.get_world_size())
  ]
  with torch.no_grad():
    distributed.all_gather(copies, values.detach().contiguous())
  return torch.cat(copies)


def compute_loss(vectors, ends, months, processes):
  """Returns the loss of a process, with the gallery of all processes."""
  query, positive, negative, bias = vectors
  size, rank = len(query), distributed.get_rank()
  galleries = query, positive, negative
  all_ends, all_months = ends, months
  if processes > 1:
    galleries = [gather(x) for x in galleries]
    all_ends, all_months = gather(ends), gather(months)
  own = slice(rank * size, (rank + 1) * size)
  all_query, all_positive, all_negative = galleries
  forward = query @ torch.cat([all_positive, all_negative]).T / TEMPERATURE
  backward = positive @ all_query.T / TEMPERATURE
  width = forward.shape[1] - len(all_positive)
  own_bias = functional.pad(bias, (own.start, forward.shape[1] - own.stop))
  forward = forward + own_bias
  backward = backward + functional.pad(
    bias.T, (own.start, backward.shape[1] - own.stop)
  )
  overlap = (ends[:, :1] <= all_months) & (all_months <= ends[:, 1:])
  reverse = (all_ends[:, 0] <= months[:, None]) & (
    months[:, None] <= all_ends[:, 1]
  )
  return 0.5 * (
    compute_direction(forward, functional.pad(overlap, (0, width)))
    + compute_direction(backward, reverse)
  )


def _run_process(rank, processes, folder):
  """Writes loss and gradients; runs in a process of its own."""
  torch.set_num_threads(1)
  distributed.init_process_group(
    "gloo", f"file://{folder}/rendezvous", rank=rank, world_size=processes
  )
  arrays = dict(np.load(folder / "inputs.npz"))
  texts = [
    torch.tensor(np.split(arrays.pop(name), processes)[rank])
    for name in ("query", "positive", "negative", "ends", "months")
  ]
  encoder = Encoder(arrays)
  model = DistributedDataParallel(encoder, find_unused_parameters=True)
  loss = compute_loss(model(*texts[:3]), *texts[3:], processes)
  loss.backward()
  gradients = {
    name: weight.grad.numpy()
    for name, weight in zip(encoder.names, encoder.weights, strict=True)
  }
  np.savez(folder / f"process_{rank}.npz", loss=loss.detach(), **gradients)
  distributed.destroy_process_group()
  # A thread of torch that wants the interpreter while it shuts down aborts the
  # process; the outputs are written, so nothing has to be shut down.
  os._exit(0)


def run_processes(
  arrays: dict[str, np.ndarray], processes: int, folder: pathlib.Path
) -> tuple[float, dict[str, np.ndarray]]:
  """Returns the mean loss of the processes and the gradients that all get.

  Args:
    arrays: query, positive, negative [., D], ends [., 2] and months of the
      whole batch, which the processes share in order; and the parameters.
    processes: of torch.
    folder: empty.
  """
  np.savez(folder / "inputs.npz", **arrays)
  multiprocessing.spawn(_run_process, (processes, folder), nprocs=processes)
  outputs = [
    dict(np.load(folder / f"process_{rank}.npz")) for rank in range(processes)
  ]
  losses = [float(output.pop("loss")) for output in outputs]
  for output in outputs[1:]:
    for name, gradient in output.items():
      np.testing.assert_array_equal(gradient, outputs[0][name])
  return float(np.mean(losses)), outputs[0]
