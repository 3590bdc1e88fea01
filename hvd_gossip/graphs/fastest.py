"""The fastest mixing symmetric weights of a graph, by semidefinite programming."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

LARGEST = 100
"""Above so many replicas the semidefinite program is refused."""


def fastest(matrix: sp.csr_array) -> sp.csr_array:
    r"""The symmetric, non-negative W on the edges of a graph that has the largest spectral gap.

    `min_W ||W - 11^T/n||_2` subject to `W = W^T >= 0`, `W 1 = 1`, `W[i, j] = 0` where there is no edge; weights are
    cut to 9 digits, so that all ranks have the same.

    Args:
        matrix: a W of the graph, of which only the places of its edges matter; shape [n, n].

    Raises:
        ValueError: cvxpy is not installed, or n is above 100 (where it takes about a minute).

    Example:
        >>> from hvd_gossip.graphs import ring, reweight
        >>> reweight(ring(4), "fastest").row(0).source_weights.round(3).tolist()  # doctest: +SKIP
        [0.333, 0.333]

    Source: S. Boyd, P. Diaconis, L. Xiao, doi:10.1137/S0036144503423264.
    """
    n = matrix.shape[0]
    if n > LARGEST:
        raise ValueError(f"weights 'fastest' solve a dense program: got {n} replicas, expected at most {LARGEST}")
    upper = sp.triu(matrix, k=1).tocoo()
    weights = solve(n, tuple(upper.row.tolist()), tuple(upper.col.tolist()))
    data = np.concatenate([weights, weights])
    places = (np.concatenate([upper.row, upper.col]), np.concatenate([upper.col, upper.row]))
    edges = sp.coo_array((data, places), shape=(n, n)).tocsr()
    return (edges + sp.diags_array(np.maximum(0.0, 1 - edges.sum(axis=1)))).tocsr()


@lru_cache(maxsize=64)
def solve(n: int, rows: tuple[int, ...], columns: tuple[int, ...]) -> np.ndarray:
    """Weights of the edges."""
    try:
        import cvxpy as cp
    except ImportError as error:
        raise ValueError("weights 'fastest' need cvxpy: pip install 'hvd_gossip[optimal]'") from error
    if not rows:
        return np.zeros(0)
    edges = range(len(rows))
    incidence = sp.coo_array(
        (np.tile([1.0, -1.0], len(rows)), (np.stack([rows, columns], axis=1).ravel(), np.repeat(edges, 2))),
        shape=(n, len(rows)),
    ).tocsr()
    weight, norm = cp.Variable(len(rows), nonneg=True), cp.Variable()
    deviation = np.eye(n) - incidence @ cp.diag(weight) @ incidence.T - np.full((n, n), 1 / n)
    constraints = [deviation << norm * np.eye(n), deviation >> -norm * np.eye(n), abs(incidence) @ weight <= 1]
    # The solver's own tolerance of 1e-8 is out of reach for some hundred replicas.
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-7)
    cp.Problem(cp.Minimize(norm), constraints).solve(solver=cp.CLARABEL, **tolerances)
    found = np.maximum(np.floor(np.asarray(weight.value) * 1e9) / 1e9, 0.0)
    return found / max(1.0, float((abs(incidence) @ found).max()))
