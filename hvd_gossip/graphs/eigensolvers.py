"""The second largest modulus of an eigenvalue of a large sparse W."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse import linalg

from hvd_gossip.graphs.seeds import generator

SLOW = 2e-3
"""Below this gap Krylov methods stall, and graphs are so long and thin that their factors stay sparse."""


def sparse_second(matrix: sp.csr_array, symmetric: bool) -> float:
    """The second largest modulus of an eigenvalue.

    A rough gap decides between Lanczos, which is fast for expanders, whose factors would fill up, and inversion near 1
    and -1, which is fast for long and thin graphs, on which Lanczos would stall.

    Args:
        matrix: W, float64, shape [n, n].
        symmetric: whether it is.

    Raises:
        RuntimeError: nothing converged.
    """
    if not symmetric:
        return directed_second(matrix)
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


def less_mean(matrix: sp.csr_array, times: float = 1.0) -> linalg.LinearOperator:
    """`W - times 11^T/n` by its products."""
    return linalg.LinearOperator(
        matrix.shape,
        matvec=lambda x: matrix @ x - times * x.mean(),
        rmatvec=lambda x: matrix.T @ x - times * x.mean(),
        dtype=np.float64,
    )


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
    """The same of a W that is not symmetric: by Arnoldi, and where that stalls by inversion near 1.

    Raises:
        RuntimeError: nothing converged, or a larger eigenvalue is elsewhere.
    """
    start = generator("eigenvector", 0).standard_normal(matrix.shape[0])
    try:
        found = linalg.eigs(matrix, k=2, v0=start, ncv=60, maxiter=60, return_eigenvectors=False)
        return float(np.sort(np.abs(found))[-2])
    except linalg.ArpackNoConvergence:
        near = linalg.eigs(matrix.tocsc(), k=3, sigma=1 + 1e-6, v0=start, return_eigenvectors=False)
        second = float(np.sort(np.abs(near))[-2])
        if decay(matrix, start) > second + 1e-3:
            raise
        return second


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
