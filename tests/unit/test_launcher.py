"""What the launcher told: read from made-up environments, and compared with what MPI says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.comm.launcher import LOCAL_RANK, RANK, SIZE, check_local_rank, check_size, told


@pytest.mark.parametrize("names", [SIZE, RANK, LOCAL_RANK])
def test_each_launchers_variable_is_read(names: tuple[str, ...]) -> None:
    assert len(set(names)) == len(names)
    for number, name in enumerate(names):
        assert told(names, {name: str(number), "OTHER": "7"}) == (name, number)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(SIZE), st.integers(0, 10**6).map(str)))
def test_the_first_variable_in_order_counts(environment: dict[str, str]) -> None:
    present = [name for name in SIZE if name in environment]
    expected = (present[0], int(environment[present[0]])) if present else None
    assert told(SIZE, environment) == expected


@pytest.mark.parametrize("value", ["", "-1", "4.0", "four", " 4", "²"])
def test_what_is_no_number_is_passed_over(value: str) -> None:
    assert told(SIZE, {"OMPI_COMM_WORLD_SIZE": value}) is None
    assert told(SIZE, {"OMPI_COMM_WORLD_SIZE": value, "PMI_SIZE": "3"}) == ("PMI_SIZE", 3)


def test_the_environment_of_the_process_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SIZE:
        monkeypatch.delenv(name, raising=False)
    assert told(SIZE) is None
    monkeypatch.setenv("PALS_SIZE", "12")
    assert told(SIZE) == ("PALS_SIZE", 12)
    with pytest.raises(RuntimeError, match="PALS_SIZE=12"):
        check_size(1, "Open MPI v5")


@pytest.mark.parametrize(
    ("size", "environment"),
    [
        (1, {}),
        (1, {"PMI_SIZE": "1"}),
        (4, {"PMI_SIZE": "4"}),
        # A communicator of a part of the job, or a launcher that counts otherwise, is nobody's mistake.
        (2, {"PMI_SIZE": "4"}),
        (4, {}),
        (1, {"PMI_SIZE": "four"}),
    ],
)
def test_a_size_that_may_be_right_passes(size: int, environment: dict[str, str]) -> None:
    check_size(size, "MPICH", environment)


def test_processes_that_each_believe_to_be_alone_are_refused() -> None:
    with pytest.raises(RuntimeError) as caught:
        check_size(1, "MPICH Version 5.0.2", {"OMPI_COMM_WORLD_SIZE": "4"})
    text = str(caught.value)
    assert "the launcher started 4 processes (OMPI_COMM_WORLD_SIZE=4), but MPI sees only 1" in text
    assert "the MPI of this Python (MPICH Version 5.0.2) is not the one that launched it" in text
    for remedy in ("mpirun of the same MPI", "hvd-gossip doctor", "--mpi, not --gloo", "container"):
        assert remedy in text


@pytest.mark.parametrize(
    ("local_rank", "environment"),
    [(0, {}), (3, {"SLURM_LOCALID": "3"}), (0, {"SLURM_LOCALID": "x"}), (2, {"PMI_RANK": "5"})],
)
def test_a_local_rank_that_agrees_gives_no_warning(local_rank: int, environment: dict[str, str]) -> None:
    assert check_local_rank(local_rank, environment) is None


@pytest.mark.parametrize(("found", "launched"), [(0, 2), (3, 1)])
def test_a_local_rank_that_differs_is_told_with_the_cause(found: int, launched: int) -> None:
    text = check_local_rank(found, {"OMPI_COMM_WORLD_LOCAL_RANK": str(launched)})
    assert text is not None
    assert (
        f"local rank {found} (processes that share memory) differs from OMPI_COMM_WORLD_LOCAL_RANK={launched}" in text
    )
    assert "container" in text
    assert "CUDA devices" in text
