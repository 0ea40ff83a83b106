import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from eagle3_viz.compatibility import (
    check_compatible,
    is_language_model,
    parameter_count,
    read_config,
    tensor_table,
)
from eagle3_viz.embedded import PairError

WIDTH, VOCABULARY = 8, 32


def write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def target(tmp_path: Path, **changes: Any) -> Path:
    config = {"hidden_size": WIDTH, "vocab_size": VOCABULARY} | changes
    return write(tmp_path / "target", config, {"w": torch.zeros(2)})


def eagle3(
    width: int = WIDTH, hidden: int = WIDTH, vocabulary: int = VOCABULARY, taps: int = 3
) -> dict[str, torch.Tensor]:
    return {
        "fc.weight": torch.zeros(hidden, taps * width),
        "midlayer.self_attn.q_proj.weight": torch.zeros(hidden, 2 * hidden),
        "d2t": torch.zeros(4, dtype=torch.int64),
        "t2d": torch.zeros(vocabulary, dtype=torch.bool),
    }


def test_draft_of_the_same_width_and_vocabulary_fits(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", {"hidden_size": WIDTH, "vocab_size": VOCABULARY}, eagle3())
    assert check_compatible(target(tmp_path), draft) is None


def test_narrow_draft_fits_the_wide_target_it_reads(tmp_path: Path) -> None:
    config = {"hidden_size": 6, "target_hidden_size": WIDTH, "vocab_size": VOCABULARY}
    draft = write(tmp_path / "draft", config, eagle3(hidden=6))
    assert check_compatible(target(tmp_path), draft) is None


def test_draft_of_another_width_is_refused_with_both_numbers(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", {"vocab_size": VOCABULARY}, eagle3(width=16))
    reason = check_compatible(target(tmp_path), draft)
    assert reason is not None
    assert "hidden size 16, and target has 8" in reason


def test_draft_of_another_vocabulary_is_refused_with_both_numbers(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", {"vocab_size": VOCABULARY}, eagle3(vocabulary=48))
    reason = check_compatible(target(tmp_path), draft)
    assert reason is not None
    assert "48 tokens, and target has 32" in reason


def test_tensors_win_over_a_config_that_claims_otherwise(tmp_path: Path) -> None:
    draft = write(tmp_path / "draft", {"hidden_size": 99, "vocab_size": 99}, eagle3())
    assert check_compatible(target(tmp_path), draft) is None


@pytest.mark.parametrize(
    "config",
    [
        {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]},
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}},
        {"num_aux_hidden_states": 4},
    ],
)
def test_number_of_taps_comes_from_the_config(tmp_path: Path, config: dict[str, Any]) -> None:
    draft = write(tmp_path / "draft", config, eagle3(taps=4))
    assert check_compatible(target(tmp_path), draft) is None


def test_sizes_are_found_inside_nested_configs(tmp_path: Path) -> None:
    sizes = {"hidden_size": WIDTH, "vocab_size": VOCABULARY}
    folder = write(tmp_path / "target", {"text_config": sizes}, {"w": torch.zeros(2)})
    draft = write(tmp_path / "draft", {"transformer_layer_config": sizes}, {"x": torch.zeros(1)})
    assert check_compatible(folder, draft) is None


def test_trainer_prefixes_do_not_hide_a_mismatch(tmp_path: Path) -> None:
    tensors = {f"module.{name}": tensor for name, tensor in eagle3(width=16).items()}
    draft = write(tmp_path / "draft", {}, tensors)
    assert "hidden size 16" in str(check_compatible(target(tmp_path), draft))


def test_eagle1_reads_one_target_state_beside_the_embedding(tmp_path: Path) -> None:
    tensors = {
        "fc.weight": torch.zeros(WIDTH, 2 * WIDTH),
        "layers.0.self_attn.q_proj.weight": torch.zeros(WIDTH, WIDTH),
    }
    draft = write(tmp_path / "draft", {"vocab_size": VOCABULARY}, tensors)
    assert check_compatible(target(tmp_path), draft) is None


LANGUAGE_MODEL = {"model.embed_tokens.weight": torch.zeros(48, 4), "lm_head.weight": torch.zeros(1)}


def test_a_language_model_of_its_own_reads_no_states_and_may_have_other_sizes(
    tmp_path: Path,
) -> None:
    draft = write(tmp_path / "draft", {"hidden_size": 4, "vocab_size": 48}, LANGUAGE_MODEL)
    assert is_language_model(tensor_table(draft))
    assert check_compatible(target(tmp_path), draft) is None


@pytest.mark.parametrize("prefix", ["", "model.", "module.", "draft_model."])
def test_a_head_that_brings_its_embedding_is_no_language_model(tmp_path: Path, prefix: str) -> None:
    tensors = {prefix + name: tensor for name, tensor in eagle3(width=16).items()}
    tensors["model.embed_tokens.weight"] = torch.zeros(VOCABULARY, WIDTH)
    draft = write(tmp_path / "draft", {"vocab_size": VOCABULARY}, tensors)
    assert not is_language_model(tensor_table(draft))
    assert "hidden size 16" in (check_compatible(target(tmp_path), draft) or "")


def test_missing_or_damaged_halves_are_a_reason_not_a_crash(tmp_path: Path) -> None:
    folder = target(tmp_path)
    assert "no folder" in str(check_compatible(folder, tmp_path / "absent"))
    draft = write(tmp_path / "draft", {}, eagle3())
    (draft / "model.safetensors").write_bytes(b"not tensors at all")
    assert "damaged" in str(check_compatible(folder, draft))
    (draft / "model.safetensors").unlink()
    assert "holds no weights" in str(check_compatible(folder, draft))
    (draft / "config.json").unlink()
    assert "holds no config.json" in str(check_compatible(folder, draft))


@pytest.mark.parametrize("text", ["", "[1]", "{", "\udcff"])
def test_unreadable_config_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(PairError, match="not a readable model config"):
        read_config(tmp_path)


def test_oversized_config_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{" + " " * 10_000_001 + "}")
    with pytest.raises(PairError, match="larger than"):
        read_config(tmp_path)


def test_pickled_weights_are_listed_like_safetensors(tmp_path: Path) -> None:
    tensors = eagle3()
    folder = write(tmp_path / "safe", {}, tensors)
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    torch.save(tensors, pickled / "pytorch_model.bin")
    assert tensor_table(pickled) == tensor_table(folder)


def test_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"w": Payload()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(PairError, match="damaged or not a weights file"):
        tensor_table(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_index_tables_are_not_parameters(tmp_path: Path) -> None:
    folder = write(tmp_path / "draft", {}, eagle3())
    assert parameter_count(tensor_table(folder)) == WIDTH * 3 * WIDTH + WIDTH * 2 * WIDTH
