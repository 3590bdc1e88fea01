"""MatrixTopology: what it refuses, the key of its edges, and that it keeps a matrix of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import MatrixTopology

MASKS = st.lists(st.booleans(), min_size=6, max_size=6)


def weighted(mask: list[bool], seed: int) -> np.ndarray:
    """Random weights on the diagonal and on the chosen ones of the six edges of three replicas."""
    W = np.eye(3)
    W[~np.eye(3, dtype=bool)] = mask
    W *= np.random.default_rng(seed).uniform(0.1, 1, (3, 3))
    return W / W.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (np.full((2, 3), 1 / 3), r"graph 'own': got a matrix of shape \(2, 3\), expected a square one"),
        (np.array([1.0]), "expected a square one"),
        (np.array([[1.5, -0.5], [0, 1]]), "graph 'own': weights must be finite and not negative"),
        (np.array([[np.nan, 1], [0, 1]]), "weights must be finite"),
        (np.array([[1, 0], [0, np.inf]]), "weights must be finite"),
        (np.array([[1, 0], [0.25, 0.5]]), r"graph 'own': row 1 sums to 0\.75, expected 1: rows receive"),
        (np.array([[0.5, 0.5], [0, 0]]), r"row 1 sums to 0\.0, expected 1"),
        (np.array([[0.5, 1], [0.5, 0]]), r"row 0 sums to 1\.5, expected 1"),
        (np.zeros((0, 0)), "got n = 0, expected an integer number of replicas of at least 1"),
    ],
    ids=["oblong", "flat", "negative", "nan", "inf", "too little", "nothing", "columns", "empty"],
)
def test_refusals(matrix: np.ndarray, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        MatrixTopology("own", matrix)


@settings(deadline=None)
@given(MASKS, MASKS, st.integers(0, 100))
def test_the_key_is_equal_iff_the_edges_are(one: list[bool], other: list[bool], seed: int) -> None:
    a, b = MatrixTopology("a", weighted(one, seed)), MatrixTopology("b", weighted(other, seed + 1))
    assert (a.edges == b.edges) == (one == other)
    assert a.edges == MatrixTopology("c", weighted(one, seed + 2)).edges


def test_a_self_weight_of_zero_is_no_other_edge_set() -> None:
    swap, average = np.array([[0.0, 1], [1, 0]]), np.full((2, 2), 0.5)
    assert MatrixTopology("swap", swap).edges == MatrixTopology("average", average).edges


def test_an_edge_of_weight_zero_is_no_edge() -> None:
    explicit = sp.csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    topology = MatrixTopology("own", explicit)
    assert len(topology.row(0).sources) == len(topology.row(1).destinations) == 0
    assert topology.edges == MatrixTopology("own", np.eye(2)).edges


def test_entries_given_twice_are_one_edge() -> None:
    twice = sp.csr_array((np.array([0.5, 0.25, 0.25, 1.0]), np.array([0, 1, 1, 1]), np.array([0, 3, 4])), shape=(2, 2))
    row = MatrixTopology("own", twice).row(0)
    assert (row.sources.tolist(), row.source_weights.tolist()) == ([1], [0.5])


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.csc_array, sp.coo_array])
def test_the_matrix_given_stays_the_users(form: Any) -> None:
    given_matrix = form(np.array([[0.5, 0.5], [0.25, 0.75]]))
    topology = MatrixTopology("own", given_matrix)
    values = given_matrix if form is np.array else given_matrix.data
    values[:] = 9
    topology.matrix().data[:] = 7
    assert topology.row(0).source_weights.tolist() == [0.5]
    assert topology.matrix().toarray().tolist() == [[0.5, 0.5], [0.25, 0.75]]
