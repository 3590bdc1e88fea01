"""The size of the pieces in which vectors travel, and the thread in which exchanges go on."""

from __future__ import annotations

import threading

import pytest

from hvd_gossip.comm import chunks
from hvd_gossip.comm.background import Background


class Node:
    """Some ranks."""

    def __init__(self, size: int) -> None:
        self.size = size

    def Get_size(self) -> int:
        return self.size


class World:
    """As much of a world as the choice looks at: one of n ranks with so many on its node."""

    def __init__(self, size: int, near: int) -> None:
        self.size, self.node, self.comm = size, Node(near), self

    def together(self, action):
        return action()

    def agree(self, what, value) -> None:
        self.agreed = (what, value)

    def allreduce(self, value, op):
        return value


@pytest.mark.parametrize(("near", "fabric", "size"), [(4, False, 1 << 20), (2, False, 60_000), (2, True, 1 << 20)])
def test_pieces_are_short_over_tcp_alone(monkeypatch: pytest.MonkeyPatch, near: int, fabric: bool, size: int) -> None:
    monkeypatch.delenv("HVD_GOSSIP_CHUNK_BYTES", raising=False)
    monkeypatch.setattr(chunks, "has_fabric", lambda: fabric)
    assert chunks.chunk_bytes(World(4, near)) == size  # type: ignore[arg-type]


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVD_GOSSIP_CHUNK_BYTES", "4096")
    assert chunks.chunk_bytes(World(4, 4)) == 4096  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["15", "-1", "1e6", "many"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=f"got HVD_GOSSIP_CHUNK_BYTES = '{text}': expected a number of bytes, at least 16"
    ):
        chunks.told_bytes(text)


def test_a_fabric_is_a_folder_with_devices(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(chunks, "FABRICS", (str(tmp_path / "none"), str(tmp_path)))
    assert not chunks.has_fabric()
    (tmp_path / "mlx5_0").mkdir()
    assert chunks.has_fabric()


def test_the_background_keeps_the_order_and_hands_on_errors() -> None:
    background, seen = Background(), []
    futures = [background.submit(seen.append, index) for index in range(100)]
    failing = background.submit(lambda: 1 / 0)
    assert background.submit(threading.get_ident).result() != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert all(future.result() is None for future in futures)
    assert seen == list(range(100))
    background.free()
    background.free()
    assert background.submit(max, 1, 2).result() == 2
    background.free()
