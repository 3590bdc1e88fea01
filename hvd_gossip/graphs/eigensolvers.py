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
    low = linalg.eigsh(inverted, k=1, sigma=-1 - 1e-9, v0=start, return_eigenvectors=False)
    return float(max(np.sort(high)[0], -low[0]))


def largest_deviation(matrix: sp.csr_array, tolerance: float, restarts: int) -> float | None:
    """The largest modulus of an eigenvalue of W - J by Lanczos, or None where it does not converge."""
    n = matrix.shape[0]
    deviation = linalg.LinearOperator((n, n), matvec=lambda x: matrix @ x - x.mean(), dtype=np.float64)
    start = generator("eigenvector", 0).standard_normal(n)
    try:
        found = linalg.eigsh(
            deviation, k=1, which="LM", v0=start, ncv=30, maxiter=restarts, tol=tolerance, return_eigenvectors=False
        )
    except linalg.ArpackNoConvergence:
        return None
    return float(abs(found[0]))


def directed_second(matrix: sp.csr_array | linalg.LinearOperator) -> float:
    """The same of a W that is not symmetric, or known by its products alone, by Arnoldi."""
    start = generator("eigenvector", 0).standard_normal(matrix.shape[0])
    found = linalg.eigs(matrix, k=2, which="LM", v0=start, ncv=60, maxiter=300, return_eigenvectors=False)
    return float(np.sort(np.abs(found))[-2])
