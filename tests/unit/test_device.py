"""The device of a rank with made-up numbers of CUDA devices, and the cores of a node shared out."""

from __future__ import annotations

import os

import pytest
import torch

from hvd_gossip.train.device import choose, index, share_cores


@pytest.fixture
def devices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Torch sees this many CUDA devices."""
    count: int = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    return count


@pytest.mark.parametrize("devices", [0, 1, 4], indirect=True)
def test_cpu_is_the_cpu_whatever_there_is(devices: int) -> None:
    assert choose("cpu", 2, 4) == torch.device("cpu")


@pytest.mark.parametrize("devices", [4, 6], indirect=True)
@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_each_rank_of_a_node_has_a_device_of_its_own(devices: int, name: str) -> None:
    found = [choose(name, local_rank, 4) for local_rank in range(4)]
    assert found == [torch.device("cuda", number) for number in range(4)]


@pytest.mark.parametrize("devices", [1], indirect=True)
@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_the_only_visible_device_is_taken(devices: int, name: str) -> None:
    """Launchers that show each rank its own device show exactly one."""
    assert choose(name, 3, 4) == torch.device("cuda", 0)


@pytest.mark.parametrize("devices", [0], indirect=True)
def test_without_cuda_auto_takes_the_cpu_and_cuda_is_refused(devices: int) -> None:
    assert choose("auto", 0, 1) == torch.device("cpu")
    with pytest.raises(ValueError, match="got device cuda, but torch sees no CUDA device: use device cpu"):
        choose("cuda", 0, 1)


@pytest.mark.parametrize("devices", [2], indirect=True)
@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_more_ranks_than_devices_are_refused(devices: int, name: str) -> None:
    with pytest.raises(
        ValueError, match="4 ranks on this node, but 2 CUDA devices are visible: start at most one rank"
    ):
        choose(name, 2, 4)


@pytest.mark.parametrize(("visible", "local_rank", "expected"), [(1, 0, 0), (1, 5, 0), (2, 1, 1), (8, 7, 7)])
def test_index(visible: int, local_rank: int, expected: int) -> None:
    assert index(visible, local_rank, 8) == expected


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What torch is told, on a node where eight cores may be used."""
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return told


@pytest.mark.parametrize(("local_size", "expected"), [(2, [4]), (3, [2]), (8, [1]), (20, [1]), (1, [])])
def test_cores_are_divided_among_the_ranks_of_a_node(threads: list[int], local_size: int, expected: list[int]) -> None:
    share_cores(local_size)
    assert threads == expected


def test_omp_num_threads_settles_it(threads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    share_cores(4)
    assert threads == []
