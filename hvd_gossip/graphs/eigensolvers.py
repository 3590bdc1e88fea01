"""The second largest modulus of an eigenvalue of a large sparse W."""

from __future__ import annotations

from functools import reduce

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph, linalg

from hvd_gossip.graphs.seeds import generator

DENSE = 1_500
"""Up to so many replicas all eigenvalues of a dense matrix are computed."""
SLOW = 2e-3
"""Below this gap Krylov methods stall, and graphs are so long and thin that their factors stay sparse."""


def symmetric_second(matrix: sp.csr_array) -> float:
    """The second largest modulus of an eigenvalue of a large symmetric W.

    A rough gap decides between Lanczos, which is fast for expanders, whose factors would fill up, and inversion near 1
    and -1, which is fast for long and thin graphs, on which Lanczos would stall.

    Args:
        matrix: W, float64, shape [n, n].

    Raises:
        RuntimeError: nothing converged.
    """
    rough = largest_deviation(matrix, tolerance=1e-4, restarts=40)
    if rough is not None and 1 - rough > SLOW:
        fine = largest_deviation(matrix, tolerance=1e-9, restarts=1000)
        if fine is not None:
            return fine
    start = generator("eigenvector", 0).standard_normal(matrix.shape[0])
    inverted = matrix.tocsc()
    high = linalg.eigsh(inverted, k=2, sigma=1 + 1e-9, v0=start, return_eigenvectors=False)
    lowest = linalg.eigsh(matrix, k=1, which="SA", v0=start, ncv=30, tol=1e-3, return_eigenvectors=False)[0]
    if lowest < -0.9:
        lowest = linalg.eigsh(inverted, k=1, sigma=-1 - 1e-9, v0=start, return_eigenvectors=False)[0]
    return float(max(np.sort(high)[0], -lowest))


def less_mean(*matrices: sp.csr_array, times: float = 1.0) -> linalg.LinearOperator:
    """`W(T-1) … W(0) - times 11^T/n` by its products; W(0) is given first."""

    def apply(x: np.ndarray) -> np.ndarray:
        return reduce(lambda found, matrix: matrix @ found, matrices, x) - times * x.mean()

    def apply_transposed(x: np.ndarray) -> np.ndarray:
        return reduce(lambda found, matrix: matrix.T @ found, matrices[::-1], x) - times * x.mean()

    return linalg.LinearOperator(matrices[0].shape, matvec=apply, rmatvec=apply_transposed, dtype=np.float64)


def largest_deviation(matrix: sp.csr_array, tolerance: float, restarts: int) -> float | None:
    """The largest modulus of an eigenvalue of W - J by Lanczos, or None where it does not converge."""
    start = generator("eigenvector", 0).standard_normal(matrix.shape[0])
    try:
        deviation, options = less_mean(matrix), {"v0": start, "ncv": 30, "maxiter": restarts, "tol": tolerance}
        found = linalg.eigsh(deviation, k=1, which="LM", return_eigenvectors=False, **options)
    except linalg.ArpackNoConvergence:
        return None
    return float(abs(found[0]))


def directed_second(matrix: sp.csr_array) -> float:
    """The same of a W that is not symmetric: each strongly connected group of replicas is looked at by itself.

    In the order of the groups W is block triangular. Taken as a whole, a chain of groups has an eigenvalue of so high a
    multiplicity that rounding moves it far.

    Raises:
        RuntimeError: nothing converged, or a larger eigenvalue is elsewhere.
    """
    _, group = csgraph.connected_components(matrix, directed=True, connection="strong")
    sizes = np.bincount(group)
    moduli = [np.abs(matrix.diagonal()[sizes[group] == 1])]
    for index in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(group == index)
        block = matrix if len(members) == len(group) else matrix[members][:, members]
        dense = len(members) <= DENSE
        moduli.append(np.abs(np.linalg.eigvals(block.toarray())) if dense else largest_two(block))
    return float(np.sort(np.concatenate(moduli))[-2])


def product_second(matrices: list[sp.csr_array]) -> float:
    """The same of `W(T-1) … W(0)`, given by its factors, W(0) first; the product itself may be too large to be formed.

    Raises:
        RuntimeError: nothing converged.
    """
    start = generator("eigenvector", 0).standard_normal(matrices[0].shape[0])
    found = linalg.eigs(less_mean(*matrices, times=0), k=2, v0=start, ncv=60, return_eigenvectors=False)
    return float(np.abs(found).min())


def largest_two(matrix: sp.csr_array) -> np.ndarray:
    """The two largest moduli of a large W that is not symmetric: by Arnoldi, where that stalls by inversion near 1.

    Raises:
        RuntimeError: nothing converged, or a larger eigenvalue is elsewhere.
    """
    start = generator("eigenvector", 0).standard_normal(matrix.shape[0])
    try:
        found = linalg.eigs(matrix, k=2, v0=start, ncv=60, maxiter=60, return_eigenvectors=False)
        return np.abs(found)
    except linalg.ArpackNoConvergence:
        near = linalg.eigs(matrix.tocsc(), k=3, sigma=1 + 1e-6, v0=start, return_eigenvectors=False)
        moduli = np.sort(np.abs(near))[-2:]
        if decay(matrix, start) > moduli[0] + 1e-3:
            raise
        return moduli


def decay(matrix: sp.csr_array, x: np.ndarray, steps: int = 500) -> float:
    """By what factor the disagreement shrinks in a round after some hundred of them."""
    norms = []
    for _ in range(2):
        for _ in range(steps):
            x = matrix @ x
            x = x - x.mean()
        norms.append(max(float(np.linalg.norm(x)), 1e-300))
        x = x / norms[-1]
    return norms[-1] ** (1 / steps)
