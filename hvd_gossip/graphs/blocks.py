"""Rounds made of blocks: ranges of ranks which average in groups, or hand over to the ranks behind them.

Rows receive; every round is symmetric and doubly stochastic.

Source: arXiv:2305.11420.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from hvd_gossip.graphs.local import LocalTopology
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.topology import Topology


class Average(NamedTuple):
    """Ranks begin … begin + length - 1 average in groups of `size` ranks that lie `stride` apart."""

    begin: int
    length: int
    size: int
    stride: int


class HandOver(NamedTuple):
    """Each of `rest` ranks after the part joins one rank of each of `parts` equal parts of the ranks from begin on.

    `weight` is the part's share of all: afterwards each part's mean, and that of the rest, is the mean of both.
    """

    begin: int
    part: int
    parts: int
    rest: int
    weight: float


Block = Average | HandOver


class Round(NamedTuple):
    """Blocks on the ranks 0 … modulus - 1, and the same again on every further `modulus` ranks."""

    modulus: int
    blocks: tuple[Block, ...]


def averages(begin: int, length: int, factors: list[int], stride: int = 1) -> list[Block]:
    """One block for each factor: together they average all ranks that lie a multiple of `stride` apart."""
    blocks: list[Block] = []
    for factor in factors:
        blocks.append(Average(begin, length, factor, stride))
        stride *= factor
    return blocks


def factor_rounds(n: int, factors: list[int], stride: int = 1) -> list[Round]:
    """One round for each factor, on all ranks."""
    return [Round(n, (block,)) for block in averages(0, n, factors, stride)]


def sequence(name: str, n: int, rounds: list[Round]) -> Varying:
    """The schedule of these rounds; n = 1 has one round in which nothing moves."""
    rounds = rounds or [Round(n, ())]
    degree = max((max_degree(block) for _, blocks in rounds for block in blocks), default=0)

    def topology(round: int, epoch: int) -> Topology:
        return LocalTopology(f"{name} round {round}", n, rounds[round], partial(neighbours, rounds[round]))

    return Varying(name, n, topology, period=len(rounds), degree=degree)


def max_degree(block: Block) -> int:
    """The most neighbours that a rank has in a block."""
    return block.size - 1 if isinstance(block, Average) else block.parts


def neighbours(round: Round, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sources and weights of ranks, padded with the ranks themselves and 0."""
    width = max((block.size if isinstance(block, Average) else block.parts for block in round.blocks), default=1)
    places = ranks % round.modulus
    moves, weights = np.zeros((len(ranks), width), dtype=np.int64), np.zeros((len(ranks), width))
    for block in round.blocks:
        for who, found, weight in links(block, places):
            moves[who, : found.shape[1]] = found - places[who][:, None]
            weights[who, : found.shape[1]] = weight
    return ranks[:, None] + moves, weights


def links(block: Block, places: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Which of `places` take part, the places they hear, of shape [who, links], and the weight of each."""
    offset = places - block.begin
    if isinstance(block, Average):
        who = np.flatnonzero((offset >= 0) & (offset < block.length))
        digit = offset[who] // block.stride % block.size
        yield who, places[who][:, None] + (np.arange(block.size) - digit[:, None]) * block.stride, 1 / block.size
        return
    size = block.part * block.parts
    givers = np.flatnonzero((offset >= 0) & (offset < size) & (offset % block.part < block.rest))
    yield givers, (block.begin + size + offset[givers] % block.part)[:, None], block.weight
    rest = np.flatnonzero((offset >= size) & (offset < size + block.rest))
    slots = np.arange(block.parts) * block.part
    yield rest, block.begin + slots + (offset[rest] - size)[:, None], block.weight
