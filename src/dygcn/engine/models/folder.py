"""A saved folder: a manifest with checksums, and safetensors files. Nothing is ever unpickled."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from dygcn.engine._disk import is_private, keep_private, sync_file, sync_names
from dygcn.errors import DamagedFolder, FolderError, MissingFolder, UnsupportedFolder

FORMAT = 4
READ = (3, FORMAT)  # 3 has no other contents: it was written where settings of 4 did not occur
MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 16 << 20  # names of streams are in it: 20,000, of up to 200 bytes
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
WORTH_A_LINK = 1 << 20  # bytes; of smaller files every folder has a copy of its own
Tensors = dict[str, NDArray[Any]]


class FileEntry(msgspec.Struct, forbid_unknown_fields=True):
    """Size and checksum of one file."""

    bytes: int
    blake2b: str


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """The contents of the folder. `checksum` covers everything else in it."""

    format: int
    settings: dict[str, Any]
    written_with: dict[str, str]
    files: dict[str, FileEntry]
    checksum: str = ""


def write_folder(
    path: str | os.PathLike[str],
    settings: dict[str, Any],
    files: dict[str, Tensors],
    known: Mapping[str, tuple[Path, FileEntry]] | None = None,
    private: bool = False,
) -> dict[str, FileEntry]:
    """Write a folder under a temporary name, then rename it, so a partial one is never visible.

    `known` are files of which another folder has a copy, with size and checksum: of a large and intact
    copy the folder gets a second name (a hard link) instead of the same bytes again. `private`: for its
    owner alone, as is a folder that replaces such a one. Return size and checksum of every file.
    """
    target = check_target(path)
    try:
        staged = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise FolderError(f"cannot write to {target.parent}: {error.strerror}") from None
    try:
        entries = {}
        for name, tensors in files.items():
            if known is not None and name in known and _link(*known[name], staged / name):
                entries[name] = known[name][1]
                continue
            save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, staged / name)
            entries[name] = _describe(staged / name)
        versions = {
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        }
        manifest = Manifest(FORMAT, settings, versions, entries)
        manifest.checksum = _checksum(manifest)
        (staged / MANIFEST).write_bytes(_encode(manifest))
        if private or is_private(target):
            keep_private(staged)
        else:
            staged.chmod(0o755)
        for file in staged.iterdir():
            sync_file(file)
        sync_names(staged)
        _swap(staged, target)
        sync_names(target.parent)
        return entries
    except FolderError:
        raise
    except (OSError, SafetensorError) as error:
        raise FolderError(f"cannot write {target}: {error}") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)  # what was not finished, or the folder that had the name


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse a target that cannot be written, or that holds files which dygcn did not save."""
    target = Path(path)
    try:
        there = [*target.iterdir()] if target.is_dir() else None
        if target.exists() and there != [] and not (target / MANIFEST).is_file():
            raise FolderError(f"{target} exists and is not a dygcn folder; choose another name or remove it")
        if not all(file.name == MANIFEST or file.suffix == ".safetensors" for file in there or ()):
            raise FolderError(
                f"{target} holds more than was saved, perhaps a log; choose another name or remove it"
            )
        new = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in new:
            sync_names(folder.parent)
        if not os.access(target.parent, os.W_OK):
            raise FolderError(f"{target.parent} cannot be written to")
    except FolderError:
        raise
    except OSError as error:
        raise FolderError(f"cannot write to {target}: {error.strerror}") from None
    return target


def _swap(staged: Path, target: Path) -> None:
    """Move a new folder to its final name; a folder already there takes the temporary name until deleted."""
    if not target.exists():
        staged.rename(target)
        return
    if not _exchange(staged, target):
        _put_aside(staged, target)
    sync_names(target.parent)  # before the old one goes


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; return False if the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    return rename is not None and rename(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE) == 0


def _put_aside(staged: Path, target: Path) -> None:
    """Exchange two folders by two renames; if the second fails, undo the first."""
    aside = staged.with_name(f"{staged.name}.old")
    try:
        target.rename(aside)
        staged.rename(target)
    except BaseException:
        if aside.exists() and not target.exists():
            aside.rename(target)
        raise
    aside.rename(staged)


def _link(copy: Path, entry: FileEntry, name: Path) -> bool:
    """Hard-link a file if it is large and matches its checksum; return whether it was linked."""
    if entry.bytes < WORTH_A_LINK:
        return False
    try:
        if _describe(copy, entry.bytes) != entry:
            return False
        os.link(copy, name)
    except (OSError, DamagedFolder):
        return False
    return True


def read_folder(
    path: str | os.PathLike[str], names: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Tensors], dict[str, FileEntry]]:
    """Read a folder, checking every byte before use; return settings, tensors and entries of its files."""
    folder = Path(path)
    manifest = read_manifest(folder)
    if set(manifest.files) != set(names):
        raise DamagedFolder(f"{folder} lists the files {sorted(manifest.files)}; expected {sorted(names)}")
    tensors = {}
    for name in names:
        entry, file = manifest.files[name], folder / name
        if _describe(file, entry.bytes) != entry:
            raise DamagedFolder(f"{file} is not what was saved (its checksum differs); restore a copy")
        try:
            tensors[name] = load_file(file)
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise DamagedFolder(f"{file} cannot be read: {error}") from None
    return manifest.settings, tensors, manifest.files


def take_tensor(tensors: Tensors, name: str, dtype: Any, ndim: int = 1) -> NDArray[Any]:
    """Return a tensor of a file by name; raise ValueError if it is missing or has another type."""
    tensor = tensors.pop(name, None)
    if tensor is None or tensor.dtype != dtype or tensor.ndim != ndim:
        raise ValueError(f"tensor {name!r} is missing or of another type")
    return np.ascontiguousarray(tensor)


def read_manifest(folder: Path) -> Manifest:
    """Read the list of files of a saved folder; raise FolderError if it is none."""
    file = folder / MANIFEST
    try:
        if not folder.exists():
            raise MissingFolder(f"{folder} does not exist; check the name, or save an embedding there first")
        if not file.is_file():
            raise DamagedFolder(f"{folder} is not a dygcn folder: there is no {MANIFEST}")
        if file.stat().st_size > _LARGEST_MANIFEST:
            raise DamagedFolder(f"{file} is larger than any manifest ({_LARGEST_MANIFEST} bytes)")
        content = file.read_bytes()
    except FolderError:
        raise
    except OSError as error:
        raise DamagedFolder(f"{file} cannot be read: {error.strerror}") from None
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFolder(f"{file} cannot be read: {error}") from None
    if manifest.format not in READ and manifest.checksum == _checksum(manifest):
        raise UnsupportedFolder(
            f"{folder} has format {manifest.format}; this version of dygcn reads {READ[0]} and {FORMAT}"
        )
    # The bytes themselves, too: a change that parses to the same value is still a change.
    if manifest.checksum != _checksum(manifest) or content != _encode(manifest):
        raise DamagedFolder(f"{file} is not what was saved (its checksum differs); restore a copy")
    return manifest


def _encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=2) + b"\n"


def _checksum(manifest: Manifest) -> str:
    blank = msgspec.structs.replace(manifest, checksum="")
    return hashlib.blake2b(_encode(blank), digest_size=32).hexdigest()


def _describe(file: Path, expected: int | None = None) -> FileEntry:
    digest = hashlib.blake2b(digest_size=32)
    try:
        size = file.stat(follow_symlinks=False).st_size
        if file.is_symlink() or not file.is_file():
            raise DamagedFolder(f"{file} is missing: something else has its name")
        if expected is not None and size != expected:
            raise DamagedFolder(f"{file} has {size} bytes, {expected} were saved; restore a copy")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:  # a writer may drop a snapshot while another process reads it
        raise DamagedFolder(f"{file} is missing") from None
    return FileEntry(size, digest.hexdigest())
