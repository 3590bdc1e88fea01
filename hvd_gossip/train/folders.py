"""The run folder: whose it is, and that one job at a time uses it."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO, Any

import yaml

from hvd_gossip.train import config as configuration
from hvd_gossip.train.checkpoint import write

CONFIG = "config.yaml"
LOCK = ".lock"


def claim(folder: Path, values: dict[str, Any]) -> IO[str]:
    """Make the run folder, lock it, and save the configuration in it.

    Args:
        folder: the run folder; its parents are made too.
        values: the nested configuration of this run.

    Returns:
        The locked file; the lock lasts until it is closed or the process ends.

    Raises:
        ValueError: the folder cannot be made, is in use, or holds something else; it is left as it was.
    """
    path = folder / CONFIG
    if path.exists():
        check_same_run(path, values)
    elif folder.is_dir() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no run: choose another folder by --run")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder)
        if not path.exists():
            write(path, yaml.safe_dump(values, sort_keys=False).encode())
    except OSError as error:
        raise ValueError(f"run folder {folder} cannot be used: {error}") from error
    return held


def lock(folder: Path) -> IO[str]:
    """Keep other jobs out of the folder, where its file system has locks.

    Raises:
        ValueError: another job holds it.
    """
    held = (folder / LOCK).open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        held.close()
        raise ValueError(
            f"{folder} is in use by another job: wait for it, or choose another folder by --run"
        ) from error
    except OSError:
        # Some parallel file systems are mounted without locks.
        return held
    return held


def check_same_run(path: Path, new: dict[str, Any]) -> None:
    """Refuse a run folder whose configuration is not this one's.

    Raises:
        ValueError: tells what differs.
    """
    try:
        old = configuration.flat(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}; choose another folder by --run") from error
    if different := configuration.differences(old, configuration.flat(new)):
        raise ValueError(f"{path.parent} holds another run ({'; '.join(different)}): choose another folder by --run")
