"""Where data that is not bundled lies."""

from __future__ import annotations

from pathlib import Path


def find_folder(task: str, folder: str | None, content: str) -> Path:
    """The folder the user named.

    Raises:
        ValueError: none was named, or it is not there.
    """
    if folder is None:
        raise ValueError(f"task {task!r} reads files: name the folder with {content} by --data.folder")
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise ValueError(f"task {task!r}: folder {folder} does not exist; expected {content}")
    return place
