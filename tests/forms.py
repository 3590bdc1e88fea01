"""Short forms that together name every graph, each with the numbers of replicas that it fits."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from hypothesis import strategies as st

from hvd_gossip.graphs import GRAPHS

Fits = Callable[[int], bool]


def any_number(n: int) -> bool:
    return True


def above(least: int) -> Fits:
    return lambda n: n > least


def composite(n: int) -> bool:
    """A torus of two dimensions needs two factors."""
    return n == 1 or any(n % factor == 0 for factor in range(2, n))


def smooth(n: int, largest: int) -> bool:
    """A hyper-hypercube of degree k needs prime factors of at most k + 1."""
    for factor in range(2, largest + 1):
        while n % factor == 0:
            n //= factor
    return n == 1


STATIC: dict[str, Fits] = {
    "ring": any_number,
    "ring:directed=true": any_number,
    "ring_lattice:k=2": above(2),
    "ring_lattice:k=6": above(6),
    "torus": composite,
    "hypercube": lambda n: n & (n - 1) == 0,
    "exponential": any_number,
    "exponential:base=3": any_number,
    "symmetric_exponential": any_number,
    "symmetric_exponential:base=4": any_number,
    "star": any_number,
    "complete": any_number,
    "binary_tree": any_number,
    "margulis": lambda n: isqrt(n) ** 2 == n,
    "random_regular:d=3,seed=1": lambda n: n > 3 and n % 2 == 0,
    "random_regular:d=4": above(4),
    "erdos_renyi": any_number,
    "erdos_renyi:p=0.6,seed=2": any_number,
    "watts_strogatz:k=4,p=0.3": above(4),
    "d_equistatic": any_number,
    "d_equistatic:m=2,seed=3": lambda n: n == 1 or n > 2,
    "u_equistatic": any_number,
    "hierarchical": any_number,
    "hierarchical:outer=exponential": any_number,
}
PERIODIC: dict[str, Fits] = {
    "one_peer_exponential": any_number,
    "base_k": any_number,
    "base_k:k=3": any_number,
    "simple_base:k=2": any_number,
    "hyper_hypercube": any_number,
    "hyper_hypercube:k=5": lambda n: smooth(n, 6),
    "alternating": any_number,
    "alternating:outer=ring": any_number,
    "periodic:every=3,graph=ring": any_number,
}
RANDOM: dict[str, Fits] = {
    "random_ring": any_number,
    "random_matching:seed=4": any_number,
    "od_equidyn": any_number,
    "ou_equidyn": any_number,
    "ou_equidyn:eta=0.9,seed=2": any_number,
    "matcha": any_number,
    "matcha:base=complete,budget=0.3": any_number,
}
BY_TIME: dict[str, Fits] = {
    "ada": any_number,
    "ada:k0=6,gamma=0.5": any_number,
    "ada:k0=8,gamma=1,by=round": any_number,
}
FORMS: dict[str, Fits] = {**STATIC, **PERIODIC, **RANDOM, **BY_TIME}

WITHOUT_FORM = {"file"}
"""Needs a file; the tests of files have it."""


def names(forms: dict[str, Fits]) -> set[str]:
    """The graphs that forms name."""
    return {form.partition(":")[0] for form in forms}


def cases(forms: dict[str, Fits], largest: int = 40) -> st.SearchStrategy[tuple[str, int]]:
    """Forms with a number of replicas that each fits."""
    pairs = [(form, n) for form, fits in forms.items() for n in range(1, largest + 1) if fits(n)]
    return st.sampled_from(pairs)


def fitting(n: int) -> list[str]:
    """The forms that fit n."""
    return [form for form, fits in FORMS.items() if fits(n)]


assert names(FORMS) | WITHOUT_FORM == set(GRAPHS), names(FORMS) ^ set(GRAPHS)
