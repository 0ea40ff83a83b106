import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from eagle3_viz import embedded, hub, pairs
from eagle3_viz.config import METHODS, Method
from eagle3_viz.drafts.base import Draft
from eagle3_viz.drafts.checkpoints import CheckpointError
from eagle3_viz.drafts.eagle1 import Eagle1Draft
from eagle3_viz.drafts.eagle3 import Eagle3Draft
from eagle3_viz.drafts.prompt_lookup import PromptLookupDraft
from eagle3_viz.embedded import PairError
from eagle3_viz.pair_specs import EMBEDDED, KNOWN_PAIRS, PRETRAINED, SHIPPED, is_local
from eagle3_viz.pairs import LoadedPair, load_pair, resolve
from eagle3_viz.target import TargetError, TargetModel

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CPU = torch.device("cpu")


def model_folder(folder: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8, "vocab_size": 32} | config))
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "my-target", {"w": torch.zeros(5, 8)})


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "my-draft", {"fc.weight": torch.zeros(8, 24)})


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what is asked of the hub; nothing is cached there."""
    asked: list[str] = []

    def fetch(repo_id: str, progress: object) -> Path:
        asked.append(repo_id)
        raise PairError("hub")

    monkeypatch.setattr(hub, "fetch", fetch)
    monkeypatch.setattr(hub, "cached_snapshot", lambda repo_id: None)
    return asked


def test_local_folders_resolve_with_their_provenance(target: Path, draft: Path) -> None:
    pair = resolve(target=str(target), drafts=[str(draft)])
    assert pair.name == "my-target + my-draft"
    assert (pair.target_folder, pair.drafts[0].folder) == (target, draft)
    assert pair.target_source.location == "my-target"
    assert pair.target_source.parameters == 40
    weights = (target / "model.safetensors").read_bytes()
    assert pair.target_source.sha256 == hashlib.sha256(weights).hexdigest()
    assert [part.source.parameters for part in pair.drafts] == [192]


def test_several_drafts_keep_the_order_given(target: Path, draft: Path, tmp_path: Path) -> None:
    other = model_folder(tmp_path / "other", {"fc.weight": torch.zeros(4, 24)})
    pair = resolve(target=str(target), drafts=[str(other), str(draft)])
    assert pair.name == "my-target + other + my-draft"
    assert [part.folder for part in pair.drafts] == [other, draft]
    assert [part.source.parameters for part in pair.drafts] == [96, 192]


def test_a_target_alone_has_no_draft(target: Path) -> None:
    pair = resolve(target=str(target))
    assert pair.name == "my-target"
    assert pair.drafts == ()


def test_drafts_that_come_with_the_program_are_known_by_name(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "check_compatible", lambda target, draft: None)
    pair = resolve(target=str(target), drafts=SHIPPED)
    assert [part.folder for part in pair.drafts] == [PRETRAINED / name for name in SHIPPED]
    assert [part.source.location for part in pair.drafts] == list(SHIPPED)


def test_changed_weights_get_a_new_hash(target: Path) -> None:
    before = pairs.weights_sha256(target)
    save_file({"w": torch.ones(6, 8)}, target / "model.safetensors")
    assert pairs.weights_sha256(target) != before


def test_weights_too_large_to_hash_or_in_shards_have_no_hash(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "HASH_LIMIT", 10)
    assert pairs.weights_sha256(target) == ""
    monkeypatch.undo()
    save_file({"v": torch.zeros(1)}, target / "model-2.safetensors")
    assert pairs.weights_sha256(target) == ""


def test_unknown_name_lists_the_known_and_suggests_the_closest() -> None:
    with pytest.raises(PairError, match=r"did you mean 'llama-3\.1-8b'") as caught:
        resolve("Llama3.1-8b")
    assert all(spec.name in str(caught.value) for spec in KNOWN_PAIRS)


def test_name_and_locations_together_are_refused(target: Path) -> None:
    with pytest.raises(PairError, match="not both"):
        resolve("smollm2-135m", target=str(target))


@pytest.mark.parametrize("location", ["/no/such/folder", "./nowhere", "~/no-such/deep/folder"])
def test_missing_folder_is_never_looked_up_on_the_hub(no_hub: list[str], location: str) -> None:
    with pytest.raises(PairError, match="There is no folder"):
        resolve(target=location)
    assert no_hub == []


def test_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PairError, match=r"holds no config\.json"):
        resolve(target=str(tmp_path))


def test_hub_id_resolves_to_its_snapshot_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "models--owner--model" / "snapshots" / COMMIT
    model_folder(snapshot, {"w": torch.zeros(3)})
    monkeypatch.setattr(hub, "fetch", lambda repo_id, progress: snapshot)
    source = resolve(target="owner/model").target_source
    assert (source.name, source.location, source.revision) == ("model", "owner/model", COMMIT)


def test_draft_is_fetched_before_the_large_target(no_hub: list[str]) -> None:
    with pytest.raises(PairError, match="hub"):
        resolve(target="owner/huge", drafts=["owner/small"])
    assert no_hub == ["owner/small"]


def test_draft_of_another_target_is_refused(target: Path, tmp_path: Path) -> None:
    other = model_folder(tmp_path / "other", {"fc.weight": torch.zeros(8, 48)})
    with pytest.raises(PairError, match="hidden size 16, and my-target has 8"):
        resolve(target=str(target), drafts=[str(other)])


def test_one_draft_of_another_target_among_several_is_refused(
    target: Path, draft: Path, tmp_path: Path
) -> None:
    other = model_folder(tmp_path / "other", {"fc.weight": torch.zeros(8, 48)})
    with pytest.raises(PairError, match="The draft other was made for"):
        resolve(target=str(target), drafts=[str(draft), str(other)])


def test_known_pair_larger_than_the_memory_is_refused_before_the_download(
    no_hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "available_memory", lambda device: 25_000_000_000)
    with pytest.raises(PairError, match=r"145\.0 GB of memory .* 25\.0 GB free"):
        resolve("llama-3.3-70b")
    assert no_hub == []


def test_unknown_free_memory_stops_nobody(
    no_hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "available_memory", lambda device: None)
    with pytest.raises(PairError, match="hub"):
        resolve("llama-3.3-70b")
    assert no_hub == ["yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"]


def test_available_memory_is_what_the_kernel_calls_available() -> None:
    text = Path("/proc/meminfo").read_text() if Path("/proc/meminfo").is_file() else ""
    if "MemAvailable" not in text:
        pytest.skip("this system has no /proc/meminfo")
    total = next(int(line.split()[1]) for line in text.splitlines() if "MemTotal" in line) * 1024
    free = pairs.available_memory(CPU)
    assert free is not None
    assert 0 < free <= total


def test_known_pairs_have_distinct_names_and_the_tried_one_first() -> None:
    assert len({spec.name for spec in KNOWN_PAIRS}) == len(KNOWN_PAIRS)
    assert [spec.tried for spec in KNOWN_PAIRS] == [True] + [False] * (len(KNOWN_PAIRS) - 1)
    for spec in KNOWN_PAIRS[1:]:  # bfloat16: two bytes a parameter, and the draft on top
        assert 2 * spec.target_parameters_b < spec.memory_gb < 2.2 * spec.target_parameters_b + 0.5


def test_no_known_pair_names_two_drafts_alike() -> None:
    for spec in KNOWN_PAIRS:
        assert len(set(spec.drafts)) == len(spec.drafts) >= 1


def test_a_known_pair_is_local_when_all_its_parts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(KNOWN_PAIRS[1], drafts=("owner/one", "owner/two"))
    have = {spec.target, "owner/one"}
    monkeypatch.setattr(hub, "cached_snapshot", lambda repo: Path() if repo in have else None)
    assert not is_local(spec)
    have.add("owner/two")
    assert is_local(spec)
    assert is_local(replace(spec, drafts=(*spec.drafts, *SHIPPED)))


def test_default_is_not_local_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EAGLE3_VIZ_CACHE", str(tmp_path))
    assert not is_local(KNOWN_PAIRS[0])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TargetError("it is a hybrid"), "^it is a hybrid$"),
        (OSError("Can't load tokenizer.\nMore text"), "could not be loaded: Can't load tokenizer"),
        (torch.OutOfMemoryError("CUDA out of memory"), "memory ran out"),
        (ImportError("needs sentencepiece"), "needs sentencepiece"),
    ],
)
def test_target_that_does_not_load_is_one_sentence(
    target: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: str
) -> None:
    def load(folder: Path, **options: Any) -> TargetModel:
        raise error

    monkeypatch.setattr(TargetModel, "load", load)
    with pytest.raises(PairError, match=expected) as caught:
        load_pair(target=str(target), dtype=torch.float32, device=CPU)
    assert "\n" not in str(caught.value)


def test_draft_that_does_not_load_is_one_sentence(
    target: Path, draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(folder: Path, target: object) -> Draft:
        raise CheckpointError("lm_head.weight is missing")

    monkeypatch.setattr(TargetModel, "load", lambda folder, **options: object())
    monkeypatch.setattr(pairs, "load_draft", load)
    with pytest.raises(PairError, match=r"^lm_head\.weight is missing$"):
        load_pair(target=str(target), drafts=[str(draft)], dtype=torch.float32, device=CPU)


@dataclass
class MethodsOnly:
    """A draft of which nothing but its methods is asked."""

    methods: tuple[Method, ...]


@pytest.fixture
def load_with(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LoadedPair]:
    """`load_pair` of a made-up target and drafts for the methods given; keyword: its options."""

    def load(*methods: tuple[Method, ...], **options: Any) -> LoadedPair:
        folders = [
            model_folder(tmp_path / f"draft-{i}", {"fc.weight": torch.zeros(8, 24)})
            for i in range(len(methods))
        ]
        made = dict(zip(folders, map(MethodsOnly, methods), strict=True))
        loaded = SimpleNamespace(vocab_size=32, device=CPU, tokenizer="the tokenizer")
        monkeypatch.setattr(TargetModel, "load", lambda folder, **options: loaded)
        monkeypatch.setattr(pairs, "load_draft", lambda folder, target: made[folder])
        options |= {"dtype": torch.float32, "device": CPU}
        return load_pair(target=str(target), drafts=list(map(str, folders)), **options)

    return load


def test_each_method_runs_with_the_draft_that_is_for_it(
    load_with: Callable[..., LoadedPair],
) -> None:
    pair = load_with(("eagle3",), ("eagle1", "eagle2"))
    assert pair.methods == ("ar", "lookup", "eagle1", "eagle2", "eagle3")
    named = {method: pair.draft_for(method) for method in pair.methods}
    assert named["ar"] is None
    assert {method: loaded.source.name for method, loaded in named.items() if loaded} == {
        "lookup": "prompt lookup",
        "eagle1": "draft-1",
        "eagle2": "draft-1",
        "eagle3": "draft-0",
    }
    assert pair.tokenizer == "the tokenizer"


def test_a_target_alone_runs_autoregression_and_prompt_lookup(
    load_with: Callable[..., LoadedPair],
) -> None:
    pair = load_with()
    assert pair.methods == ("ar", "lookup")
    lookup = pair.draft_for("lookup")
    assert lookup is not None
    assert isinstance(lookup.draft, PromptLookupDraft)
    assert (lookup.draft.vocabulary_size, lookup.source.parameters) == (32, 0)


def test_a_method_without_a_draft_is_refused_with_those_that_can_run(
    load_with: Callable[..., LoadedPair],
) -> None:
    pair = load_with(("independent",))
    with pytest.raises(ValueError, match=r"'eagle3' needs a draft .* ar, lookup, independent$"):
        pair.draft_for("eagle3")


def test_two_drafts_for_one_method_are_refused(load_with: Callable[..., LoadedPair]) -> None:
    with pytest.raises(PairError, match=r"draft-0 and draft-2 are both for eagle2: give one"):
        load_with(("eagle1", "eagle2"), ("eagle3",), ("eagle2",))


def test_loading_reports_every_part_and_counts_up_to_the_whole(
    load_with: Callable[..., LoadedPair],
) -> None:
    seen: list[tuple[str, int, int]] = []
    load_with(("eagle3",), ("eagle1",), progress=lambda *stage: seen.append(stage))
    assert seen == [
        ("Loading the target my-target", 1, 4),
        ("Loading the draft draft-0", 2, 4),
        ("Loading the draft draft-1", 3, 4),
        ("The pair is ready", 4, 4),
    ]


def test_pair_that_outgrows_the_memory_in_its_dtype_is_not_loaded(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "available_memory", lambda device: 40 * 4 - 1)
    with pytest.raises(PairError, match="my-target in float32 needs"):
        load_pair(target=str(target), dtype=torch.float32, device=CPU)


def test_every_draft_counts_towards_the_memory(
    load_with: Callable[..., LoadedPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "available_memory", lambda device: (40 + 2 * 192) * 4 - 1)
    with pytest.raises(PairError, match=r"my-target \+ draft-0 \+ draft-1 in float32 needs"):
        load_with(("eagle3",), ("eagle1",))


@pytest.mark.slow
def test_default_pair_loads_and_its_drafts_read_its_target(
    capfd: pytest.CaptureFixture[str],
) -> None:
    stages: list[str] = []
    pair = load_pair(device=CPU, progress=lambda stage, done, total: stages.append(stage))
    assert pair.name == "smollm2-135m"
    assert pair.target_source.location == EMBEDDED
    assert pair.target_source.parameters == 134_515_008  # SmolLM2-135M's published count
    assert pair.target_source.sha256 == embedded.file_sha256(
        embedded.embedded_folder() / "model.safetensors"
    )
    assert pair.methods == METHODS
    first, third = pair.draft_for("eagle2"), pair.draft_for("eagle3")
    assert first is pair.draft_for("eagle1")
    assert first is not None and isinstance(first.draft, Eagle1Draft)
    assert third is not None and isinstance(third.draft, Eagle3Draft)
    assert third.source.parameters == 9_808_128
    assert str(pair.target.dtype).removeprefix("torch.") in pair.dtype_reason
    assert "Loading the target SmolLM2-135M-Instruct" in stages
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


@pytest.mark.slow
def test_embedded_target_alone_serves_autoregression() -> None:
    pair = load_pair(target=EMBEDDED, dtype=torch.float32, device=CPU)
    assert pair.methods == ("ar", "lookup")
    assert pair.dtype_reason == "float32: asked for"
    ids = pair.tokenizer("The capital of France is")["input_ids"]
    first = int(pair.target.prefill(ids).logits.argmax())
    assert pair.tokenizer.decode([first]) == " Paris"
