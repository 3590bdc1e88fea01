"""The memory of what a compressor leaves out."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hvd_gossip.comm.compress.base import Compressor, check_vector, empty, store
from hvd_gossip.comm.compress.table import compressor
from hvd_gossip.mixing import accumulation_dtype


class ErrorFeedback:
    """A compressor with a memory: what it leaves out of one vector is added to the next.

    `p = x + e`, sends C(p), `e <- p - C(p)`, from e = 0. What was sent and the memory make up what was given:
    `sum_t x_t = sum_t C(p_t) + e`, up to rounding.

    One memory serves the vectors of one buffer, all of one length and dtype. It is a vector like them, in float32 where
    they are of 16 bits; p is rounded to 16 bits then before it is compressed, and e keeps what that leaves out too. A
    NaN or an infinity stays in the memory for good.

    Args:
        spec: a compressor or its name; it has to be a contraction, else e grows without bound.

    Attributes:
        compressor: it decodes what `encode` makes.
        residual: e, or None before the first vector.

    Raises:
        ValueError: unknown name, option or value, or no contraction.

    Example:
        >>> feedback, sent = ErrorFeedback("top_k:fraction=0.5"), torch.empty(2)
        >>> x = torch.tensor([1.0, 3.0])
        >>> [feedback.compressor.decode(feedback.encode(x, seed), sent, seed).tolist() for seed in range(2)]
        [[0.0, 3.0], [0.0, 3.0]]
        >>> feedback.residual.tolist()
        [2.0, 0.0]

    Source: arXiv:1901.09847.
    """

    def __init__(self, spec: str | Compressor) -> None:
        self.compressor = compressor(spec)
        if not self.compressor.contraction:
            raise ValueError(f"got {spec!r}: expected a contraction, as the memory grows without bound else")
        self.residual: Tensor | None = None

    def encode(self, x: Tensor, seed: int) -> Tensor:
        """The bytes of C(x + e); e is updated, unless there is an error.

        Args:
            x: vector [d], as `Compressor.encode` takes it; stays as it is.
            seed: as for `Compressor.encode`.

        Returns:
            uint8 vector of `compressor.nbytes(d, x.dtype)` bytes.

        Raises:
            ValueError: x is not such a vector, or unlike those before.
        """
        check_vector(x)
        wanted = self._residual_for(x) + x.detach()
        point = wanted if wanted.dtype == x.dtype else store(empty(len(x), x.dtype), wanted)
        payload = self.compressor.encode(point, seed)
        self.residual = wanted.sub_(self.compressor.decode(payload, empty(len(x), x.dtype), seed))
        return payload

    def _residual_for(self, x: Tensor) -> Tensor:
        dtype = accumulation_dtype(x.dtype)
        if self.residual is None:
            self.residual = torch.zeros(len(x), dtype=dtype)
        if (len(self.residual), self.residual.dtype) != (len(x), dtype):
            raise ValueError(
                f"got {len(x)} numbers of {x.dtype}: expected {len(self.residual)} whose residual is of "
                f"{self.residual.dtype}, as before"
            )
        return self.residual

    def state(self) -> dict[str, Tensor]:
        """A copy of the residual, `{"residual": e}`, for an exact resumption; nothing before the first vector."""
        return {} if self.residual is None else {"residual": self.residual.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on where `state` was taken; takes a copy.

        Raises:
            ValueError: other keys, or the residual is not a vector.
        """
        if set(state) - {"residual"}:
            raise ValueError(f"got keys {sorted(state)}: expected 'residual' or none")
        residual = state.get("residual")
        if residual is not None:
            check_vector(residual)
        self.residual = None if residual is None else residual.clone()
