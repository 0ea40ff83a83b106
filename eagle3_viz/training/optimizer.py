"""AdamW over float32 masters of a draft that computes in a narrower format."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from eagle3_viz.training.objective import Objective

BETAS = (0.9, 0.95)


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
    """Float32 parameters with their optimizer, and the copies that forward and backward use."""

    def __init__(self, objective: Objective, compute: torch.dtype, clip_norm: float) -> None:
        self._clip = clip_norm
        self.parameters = {
            name: tensor.requires_grad_() for name, tensor in objective.parameters().items()
        }
        self.factors = {name: objective.rate(name) for name in self.parameters}
        groups = [
            {"params": [tensor], "lr": 0.0, "name": name}
            for name, tensor in self.parameters.items()
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=BETAS, weight_decay=0.0, fused=True)
        self.copies = {
            name: tensor.detach().to(compute).requires_grad_()
            for name, tensor in self.parameters.items()
        }

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
        """One AdamW step with `gradients` (of `gradients()`); returns their norm before it."""
        norm = float(gradients.norm())
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite; lower the learning rate")
        gradients *= min(1.0, self._clip / (norm + 1e-12))
        pieces = gradients.split([tensor.numel() for tensor in self.parameters.values()])
        for tensor, piece in zip(self.parameters.values(), pieces, strict=True):
            tensor.grad = piece.view_as(tensor)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * self.factors[group["name"]]
        self.optimizer.step()
        self.refresh()
        return norm

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the masters into the compute format."""
        for name, tensor in self.parameters.items():
            tensor.grad = None
            self.copies[name].copy_(tensor)

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and moments, by name."""
        found = {f"parameter.{name}": tensor.detach() for name, tensor in self.parameters.items()}
        for name, tensor in self.parameters.items():
            for key, value in self.optimizer.state[tensor].items():
                found[f"{key}.{name}"] = value
        return found

    @torch.no_grad()
    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Take over what `state()` gave. Raises KeyError for a tensor that is missing."""
        for name, tensor in self.parameters.items():
            tensor.copy_(state[f"parameter.{name}"])
            keys = ("step", "exp_avg", "exp_avg_sq")
            if f"step.{name}" in state:
                self.optimizer.state[tensor] = {
                    key: state[f"{key}.{name}"].to("cpu" if key == "step" else tensor.device)
                    for key in keys
                }
        self.refresh()
