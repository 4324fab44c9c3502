"""The loss of CTD in torch, from the equations of the paper alone.

For `paper_loss_test`; nothing here is imported from this project. Section 4 of
the paper, with h the pooled state of a text:

  p_k    = softmax(W_k h + b_k)                       k = reign, year, month
  c      = W_ctx [p_reign E_reign; p_year E_year; p_month E_month]
  h~     = h + gamma c
  u      = (E[g] Y M + E[y] M + E[m]) / (G Y M - 1)
  b(q,d) = epsilon MLP(sin f Delta, cos f Delta)      Delta = u_d - u_q
  s(q,d) = h~_q . h~_d / alpha + b(q,d)
  L      = L_multi + lambda L_time

L_multi is -log of the summed probability of all records of the batch whose
month lies in the query's interval, in both directions; L_time the sum of the
cross-entropies of the three heads on the positives, with label smoothing.

Axes: B queries, N records (B positives, then the hard negatives), L tokens, D
features, C classes.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

LAMBDA, SMOOTHING = 0.1, 0.2
TEMPERATURE = 0.25  # alpha over the root of D; not in the paper


def sinusoids(positions, columns):
  """Returns sines, then cosines of positions at frequencies 1 to 1e-4."""
  k = torch.arange(columns // 2, dtype=torch.float64)
  frequencies = (1e-4 ** (k / max(columns // 2 - 1, 1))).float()
  angles = positions[..., None] * frequencies
  return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Ctd(nn.Module):
  """An encoder with calendar heads, context and bias."""

  def __init__(self, encoder: nn.Module, weights: Mapping[str, np.ndarray]):
    """Takes the temporal weights by name; kernels are [in, out]."""
    super().__init__()
    self.encoder = encoder
    self.weights = {
      name: nn.Parameter(torch.tensor(array)) for name, array in weights.items()
    }

  def encode(self, ids):
    """Returns h~ [B, D], logits of the heads, and u [B] of token ids [B, L]."""
    mask = (ids > 0).long()
    states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask[..., None].float()
    h = (states * weight).sum(1) / weight.sum(1)
    w = self.weights
    logits = [
      h @ w[f"heads/{head}/kernel"] + w[f"heads/{head}/bias"]
      for head in ("reign", "year", "month")
    ]
    p = [values.softmax(-1) for values in logits]
    columns = w["context/project/kernel"].shape[0] // 3
    codes = [
      each
      @ sinusoids(torch.linspace(0, 1, each.shape[1]), columns)  # [C, columns]
      for each in p
    ]
    context = torch.cat(codes, -1) @ w["context/project/kernel"]
    reign, year, month = (
      (each * torch.arange(each.shape[1])).sum(-1) for each in p
    )
    num_reigns, years, months = (each.shape[1] for each in p)
    u = (reign * years * months + year * months + month) / (
      num_reigns * years * months - 1
    )
    return h + w["context/gate"] * context, logits, u

  def bias(self, query_u, record_u):
    """Returns b of all pairs, [B, N]."""
    w = self.weights
    delta = (record_u[None, :] - query_u[:, None]).clamp(-1, 1)
    features = sinusoids(delta, w["offset/hidden_kernel"].shape[0])
    hidden = features @ w["offset/hidden_kernel"] + w["offset/hidden_bias"]
    value = hidden.relu() @ w["offset/out_kernel"] + w["offset/out_bias"]
    return w["offset/scale"] * value[..., 0]

  def forward(self, query, positive, negative, ends, months, classes):
    """Returns the loss of a batch.

    Args:
      query: token ids [B, L].
      positive: of their positives; row i answers query i.
      negative: of hard negatives [N-B, L].
      ends: first and last month of each query, [B, 2].
      months: of the positives, [B].
      classes: reign, year and month of the positives from 0, [B, 3].
    """
    query_h, _, query_u = self.encode(query)
    positive_h, logits, positive_u = self.encode(positive)
    negative_h, _, negative_u = self.encode(negative)
    record_h = torch.cat([positive_h, negative_h])
    record_u = torch.cat([positive_u, negative_u])
    alpha = TEMPERATURE * query_h.shape[1] ** 0.5
    scores = query_h @ record_h.T / alpha + self.bias(query_u, record_u)
    answers = (ends[:, :1] <= months) & (months <= ends[:, 1:])  # [B, B]
    size = len(query)

    def direction(scores, answers):
      log_p = scores.log_softmax(1)[:, :size]
      return -log_p.masked_fill(~answers, -torch.inf).logsumexp(1).mean()

    multi = 0.5 * (
      direction(scores, answers) + direction(scores[:, :size].T, answers.T)
    )
    time = sum(
      functional.cross_entropy(
        values, classes[:, head], label_smoothing=SMOOTHING
      )
      for head, values in enumerate(logits)
    )
    return multi + LAMBDA * time
