"""Saving everything that moves, so that a resumed run goes on bit for bit.

`checkpoints/epoch_00003/` holds one file for each rank and, written last, `manifest.json` with their digests: only
with it is the checkpoint complete. Files are written under a temporary name and renamed, and are safe to load with
torch's `weights_only`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from hvd_gossip.comm.world import World

FORMAT = 1
KEPT = 2
"""Complete checkpoints kept; older ones are removed once a newer one is complete."""
MANIFEST = "manifest.json"


def write(path: Path, data: bytes) -> None:
    """Write a file so that it is either whole or not there."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def digest(data: bytes) -> str:
    """A fingerprint of a file's content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Checkpoints:
    """The checkpoints of one run folder.

    Args:
        world: every rank saves and loads its own file.
        folder: where `epoch_…` folders lie.
        about: what must be the same when resuming: dotted configuration names and values.
    """

    def __init__(self, world: World, folder: Path, about: Mapping[str, Any]) -> None:
        self.world, self.folder, self.about = world, folder, dict(about)

    def _complete(self) -> list[tuple[int, Path]]:
        """Epochs and folders of complete checkpoints, oldest first."""
        names = ((re.fullmatch(r"epoch_(\d+)", p.parent.name), p.parent) for p in self.folder.glob(f"*/{MANIFEST}"))
        return sorted((int(name[1]), place) for name, place in names if name)

    def _file(self, place: Path) -> Path:
        return place / f"rank_{self.world.rank:05d}.pt"

    def save(self, epoch: int, state: Mapping[str, Any]) -> None:
        """Save the state after `epoch` epochs on every rank; a checkpoint already complete is left as it is."""
        place = self.folder / f"epoch_{epoch:05d}"
        done = self.world.comm.bcast((place / MANIFEST).exists(), root=0)
        if done:
            return
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        place.mkdir(parents=True, exist_ok=True)
        write(self._file(place), buffer.getvalue())
        digests = self.world.comm.gather(digest(buffer.getvalue()), root=0)
        if self.world.rank == 0:
            manifest = {"format": FORMAT, "epoch": epoch, "size": self.world.size, "digests": digests}
            write(place / MANIFEST, json.dumps({**manifest, "config": self.about}, indent=1).encode())
            for _, old in self._complete()[:-KEPT]:
                (old / MANIFEST).unlink()
                shutil.rmtree(old)

    def load(self) -> tuple[int, dict[str, Any]] | None:
        """Epochs done and this rank's state of the newest complete checkpoint, or None where there is none.

        Raises:
            ValueError: on every rank, when it is damaged, or of another run; nothing is changed or removed.
        """
        newest = self.world.comm.bcast(self._complete()[-1:] if self.world.rank == 0 else None, root=0)
        if not newest:
            return None
        epoch, place = newest[0]
        return epoch, self.world.together(lambda: self._read(place, epoch))

    def _read(self, place: Path, epoch: int) -> dict[str, Any]:
        digests = self._digests(place, epoch)
        path = self._file(place)
        advice = f"restore it, or remove {place} to go on from an older checkpoint"
        if not path.exists():
            raise ValueError(f"checkpoint {path} is missing: {advice}")
        data = path.read_bytes()
        if digest(data) != digests[self.world.rank]:
            raise ValueError(f"checkpoint {path} is damaged (its content does not match {MANIFEST}): {advice}")
        return torch.load(io.BytesIO(data), weights_only=True)

    def _digests(self, place: Path, epoch: int) -> list[str]:
        """The digests of all ranks' files, from a manifest that is of this run, epoch and number of ranks."""
        try:
            manifest = json.loads((place / MANIFEST).read_text())
            known, size, digests = manifest["format"], manifest["size"], list(manifest["digests"])
            about = (manifest["epoch"], manifest["config"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"checkpoint {place / MANIFEST} is damaged: {error!r}; restore it or remove {place}"
            ) from error
        if known != FORMAT:
            raise ValueError(f"checkpoint {place} has format {known}, this version reads {FORMAT}")
        if size != self.world.size or len(digests) != size:
            raise ValueError(
                f"checkpoint {place} is of {size} ranks, this job has {self.world.size}: start as many, or use another "
                "run folder"
            )
        if about != (epoch, self.about):
            other = [name for name in self.about if about[1].get(name) != self.about[name]]
            raise ValueError(
                f"checkpoint {place} is of another run or epoch ({', '.join(other) or MANIFEST} does not fit): choose "
                f"another folder by --run, or remove {place}"
            )
        return digests
