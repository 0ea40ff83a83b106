"""The controls of a run as plain values, and the configuration they amount to.

Whatever values the controls hold, `Settings.config` is a configuration that has a meaning: values
that contradict each other give way here, in one place.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle3_viz.config import DecodeConfig, Method, Rule, Sampling, TreeShape
from eagle3_viz.fixed_tree import DEFAULT_FIXED, FIXED_TREES
from eagle3_viz.records import RecordLevel

MAX_DEPTH, MAX_TOP_K, MAX_TOTAL = 8, 10, 64
MAX_NEW_TOKENS = 1024
MAX_TEMPERATURE = 2.0
MAX_PROMPT_CHARS = 8000

METHOD_TITLES: dict[Method, str] = {
    "eagle3": "EAGLE-3",
    "eagle2": "EAGLE-2",
    "eagle1": "EAGLE-1",
    "independent": "Independent draft",
    "lookup": "Prompt lookup",
    "ar": "Autoregression",
}
RULE_TITLES: dict[Rule, str] = {
    "greedy": "greedy",
    "topk": "topk",
    "sample": "sample",
    "typical": "typical (changes the output distribution)",
}
LEVELS: tuple[RecordLevel, ...] = ("full", "outcomes", "off")


def method_title(method: str) -> str:
    """How a method is called on the screen; one that is not known by its own name."""
    return {str(name): title for name, title in METHOD_TITLES.items()}.get(method, method)


def rule_title(rule: str) -> str:
    """How a rule is called on the screen; one that is not known by its own name."""
    return {str(name): title for name, title in RULE_TITLES.items()}.get(rule, rule)


def rules_for(temperature: float, method: Method) -> tuple[Rule, ...]:
    """The rules that fit: temperature 0 is greedy, and a copied text cannot be drawn from q."""
    if temperature == 0:
        return ("greedy",)
    return ("topk", "typical") if method == "lookup" else ("topk", "sample", "typical")


@dataclass(frozen=True)
class Settings:
    """Values of the controls. total counts the root; fixed is the name of EAGLE-1's tree."""

    method: Method = "eagle3"
    rule: Rule = "greedy"
    temperature: float = 0.0
    depth: int = TreeShape.depth
    top_k: int = TreeShape.top_k
    total: int = TreeShape.total
    fixed: str = DEFAULT_FIXED.name
    target_top_k: int = 0
    target_top_p: float = 1.0
    max_new_tokens: int = 128
    seed: int = 0
    record: RecordLevel = "full"

    @property
    def effective_rule(self) -> Rule:
        """`rule` where it fits temperature and method, else the first one that does."""
        fitting = rules_for(self.temperature, self.method)
        return self.rule if self.rule in fitting else fitting[0]

    @property
    def shape(self) -> TreeShape:
        """The tree asked for, no larger than what depth and top_k can propose. Lookup copies a
        chain, of depth + 1 tokens whatever top_k and total say."""
        if self.method == "lookup":
            return TreeShape(self.depth + 2, self.depth, 1)
        pool = self.top_k + self.depth * self.top_k**2
        return TreeShape(min(max(self.total, 2), pool + 1), self.depth, self.top_k)

    def config(self) -> DecodeConfig:
        """The configuration of the run."""
        return DecodeConfig(
            method=self.method,
            shape=self.shape,
            fixed=FIXED_TREES.get(self.fixed, DEFAULT_FIXED),
            sampling=Sampling(self.temperature, self.target_top_k, self.target_top_p),
            rule=self.effective_rule,
            max_new_tokens=self.max_new_tokens,
            seed=self.seed,
            record=self.record,
        )
