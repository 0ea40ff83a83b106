"""Muon and AdamW over float32 masters of a draft that computes in a narrower format.

Matrices take Muon steps (the momentum, made orthogonal); vectors and tables with a row a token
take AdamW steps. On the embedded pair Muon reached AdamW's accuracy after less than half the
tokens, for a third more time a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from accelerate import Accelerator

from eagle3_viz.training.objective import Objective

OPTIMIZER = "Muon for matrices, AdamW for vectors and token tables"
BETAS = (0.9, 0.95)
MOMENTUM = 0.95
TABLES = ("lm_head.weight", "embed_tokens.weight")  # a row a token


@dataclass(frozen=True)
class Schedule:
    """Learning rate over a run of `total` tokens: warm-up, constant, linear to zero.

    Constant in the middle, so that a run can be made longer later without having to know now.
    """

    peak: float
    warmup_steps: int
    total_tokens: int
    decay_share: float

    def rate(self, step: int, tokens: int) -> float:
        """The rate of optimizer step `step` (from 0) after `tokens` tokens."""
        warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
        decay_tokens = self.decay_share * self.total_tokens
        left = (self.total_tokens - tokens) / decay_tokens if decay_tokens else math.inf
        return self.peak * warm * max(0.0, min(1.0, left))


class Masters:
    """Float32 parameters with their optimizers, and the copies that forward and backward use.

    With several processes each makes the Muon steps of its share of the matrices, by far the
    dearest part of an update, and the results are exchanged.
    """

    def __init__(
        self,
        objective: Objective,
        compute: torch.dtype,
        clip_norm: float,
        accelerator: Accelerator,
    ) -> None:
        self._clip, self._accelerator = clip_norm, accelerator
        self.parameters = {
            name: tensor.requires_grad_() for name, tensor in objective.parameters().items()
        }
        self.copies = {
            name: tensor.detach().to(compute).requires_grad_()
            for name, tensor in self.parameters.items()
        }
        self._factors = {name: objective.rate(name) for name in self.parameters}
        self._matrices = [
            name
            for name, tensor in self.parameters.items()
            if tensor.ndim == 2 and not name.endswith(TABLES)
        ]
        shares = _shares(self._tensors(self._matrices), accelerator.num_processes)
        self._owned = shares[accelerator.process_index]
        self._adamw = torch.optim.AdamW(
            self._groups(name for name in self.parameters if name not in self._matrices),
            betas=BETAS,
            weight_decay=0.0,
            fused=True,
        )
        self._optimizers: list[torch.optim.Optimizer] = [self._adamw]
        if self._owned:  # there may be more processes than matrices
            muon = torch.optim.Muon(
                self._groups(self._owned),
                weight_decay=0.0,
                momentum=MOMENTUM,
                adjust_lr_fn="match_rms_adamw",
            )
            self._optimizers.append(muon)

    def gradients(self) -> torch.Tensor:
        """All gradients of the copies in one float32 vector, and forgets them."""
        parts = []
        for tensor in self.copies.values():
            grad = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            parts.append(grad.flatten().float())
            tensor.grad = None
        return torch.cat(parts)

    @torch.no_grad()
    def step(self, gradients: torch.Tensor, rate: float) -> float:
        """One step with the `gradients` of all processes together; returns their norm unclipped.

        Raises FloatingPointError when it is not finite; the parameters stay as they are then.
        """
        norm = float(gradients.norm())
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite: lower --learning-rate")
        gradients *= min(1.0, self._clip / (norm + 1e-12))
        pieces = gradients.split([tensor.numel() for tensor in self.parameters.values()])
        for tensor, piece in zip(self.parameters.values(), pieces, strict=True):
            tensor.grad = piece.view_as(tensor)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * self._factors[group["name"]]
            optimizer.step()
        self._exchange(self._tensors(self._matrices))
        self._refresh()
        return norm

    @torch.no_grad()
    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and moments, by name. Every process of the job has to call it."""
        found = {f"parameter.{name}": tensor.detach() for name, tensor in self.parameters.items()}
        momenta = {name: torch.zeros_like(self.parameters[name]) for name in self._matrices}
        for name in self._owned:
            state = self._optimizers[-1].state.get(self.parameters[name])
            if state:
                momenta[name].copy_(state["momentum_buffer"])
        self._exchange(momenta)
        found |= {f"momentum.{name}": tensor for name, tensor in momenta.items()}
        for group in self._adamw.param_groups:
            for key, value in self._adamw.state[group["params"][0]].items():
                found[f"{key}.{group['name']}"] = value
        return found

    @torch.no_grad()
    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take over what `state()` gave. Raises KeyError for a tensor that is missing."""
        for name, tensor in self.parameters.items():
            tensor.copy_(state[f"parameter.{name}"])
        for name in self._owned:
            tensor = self.parameters[name]
            buffer = state[f"momentum.{name}"].to(tensor.device, copy=True)
            self._optimizers[-1].state[tensor] = {"momentum_buffer": buffer}
        for group in self._adamw.param_groups:
            tensor, name = group["params"][0], group["name"]
            if f"step.{name}" in state:
                self._adamw.state[tensor] = {
                    "step": state[f"step.{name}"].to(tensor.device, copy=True),
                    "exp_avg": state[f"exp_avg.{name}"].to(tensor.device, copy=True),
                    "exp_avg_sq": state[f"exp_avg_sq.{name}"].to(tensor.device, copy=True),
                }
        self._refresh()

    def _exchange(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Give every process the tensors as their owner has them."""
        if self._accelerator.num_processes == 1 or not tensors:
            return
        sizes = [tensor.numel() for tensor in tensors.values()]
        mine = [
            tensor.flatten() if name in self._owned else tensor.new_zeros(tensor.numel())
            for name, tensor in tensors.items()
        ]
        whole = self._accelerator.reduce(torch.cat(mine), "sum").split(sizes)
        for tensor, piece in zip(tensors.values(), whole, strict=True):
            tensor.copy_(piece.view_as(tensor))

    def _refresh(self) -> None:
        """Copy the masters into the compute format."""
        for name, tensor in self.parameters.items():
            tensor.grad = None
            self.copies[name].copy_(tensor)

    def _tensors(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        return {name: self.parameters[name] for name in names}

    def _groups(self, names: Iterable[str]) -> list[dict[str, object]]:
        return [{"params": [self.parameters[name]], "lr": 0.0, "name": name} for name in names]


def _shares(matrices: Mapping[str, torch.Tensor], processes: int) -> list[list[str]]:
    """The matrices dealt out so that making their momenta orthogonal takes about as long."""
    loads: list[float] = [0.0] * processes
    shares: list[list[str]] = [[] for _ in range(processes)]
    for name in sorted(matrices, key=lambda name: (-_work(matrices[name]), name)):
        least = loads.index(min(loads))
        shares[least].append(name)
        loads[least] += _work(matrices[name])
    return shares


def _work(matrix: torch.Tensor) -> float:
    """Multiplications of one Newton-Schulz step, up to a constant."""
    short, long = sorted(matrix.shape)
    return 2.0 * short * short * long + short**3
