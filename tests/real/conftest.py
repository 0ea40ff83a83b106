"""The embedded target in float32, the draft the golden values belong to, the one that ships."""

from __future__ import annotations

import pytest
import torch

from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.embedded import ensure_embedded
from eagle3_viz.target import TargetModel
from tests.golden_files import SHIPPED_DRAFT, START_DRAFT


@pytest.fixture(scope="session")
def loaded() -> TargetModel:
    return TargetModel.load(ensure_embedded(), dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture
def target(loaded: TargetModel) -> TargetModel:
    """The target with its first taps: a run selects those that its draft reads."""
    loaded.taps.select(loaded.default_boundaries)
    return loaded


@pytest.fixture(scope="session")
def draft(loaded: TargetModel) -> Eagle3Draft:
    return Eagle3Draft.load(START_DRAFT, loaded)


@pytest.fixture(scope="session")
def shipped(loaded: TargetModel) -> Eagle3Draft:
    return Eagle3Draft.load(SHIPPED_DRAFT, loaded)
