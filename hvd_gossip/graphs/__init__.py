"""Communication graphs and their mixing matrices: pure mathematics, no MPI."""

from hvd_gossip.graphs.ada import ada
from hvd_gossip.graphs.base_k import base_k, hyper_hypercube, simple_base
from hvd_gossip.graphs.cayley import Cayley, Circulant
from hvd_gossip.graphs.composed import alternating, hierarchical, periodic
from hvd_gossip.graphs.consensus import consensus_rate, rounds_to_consensus, simulate
from hvd_gossip.graphs.cost import Link, Machine, gossip_cost
from hvd_gossip.graphs.description import Description, describe
from hvd_gossip.graphs.edge_list import EdgeList
from hvd_gossip.graphs.equitopo import d_equistatic, od_equidyn, ou_equidyn, u_equistatic
from hvd_gossip.graphs.erdos_renyi import erdos_renyi
from hvd_gossip.graphs.irregular import binary_tree, margulis, star
from hvd_gossip.graphs.limits import limit_weights
from hvd_gossip.graphs.local import LocalTopology
from hvd_gossip.graphs.matcha import matcha
from hvd_gossip.graphs.matrix_topology import MatrixTopology
from hvd_gossip.graphs.networkx_graphs import file, from_networkx
from hvd_gossip.graphs.one_peer import one_peer_exponential
from hvd_gossip.graphs.planning import plan
from hvd_gossip.graphs.random_graphs import random_regular, watts_strogatz
from hvd_gossip.graphs.registry import GRAPHS, schedule
from hvd_gossip.graphs.relabelled import Relabelled, random_matching, random_ring
from hvd_gossip.graphs.schedules import Schedule, Static, Varying
from hvd_gossip.graphs.spectral import contraction, period_factor, second_moment, spectral_gap
from hvd_gossip.graphs.static import complete, exponential, hypercube, ring, ring_lattice, symmetric_exponential
from hvd_gossip.graphs.topology import Row, Topology
from hvd_gossip.graphs.torus import torus
from hvd_gossip.graphs.weights import RULES, reweight

__all__ = [
    "GRAPHS",
    "RULES",
    "Cayley",
    "Circulant",
    "Description",
    "EdgeList",
    "Link",
    "LocalTopology",
    "Machine",
    "MatrixTopology",
    "Relabelled",
    "Row",
    "Schedule",
    "Static",
    "Topology",
    "Varying",
    "ada",
    "alternating",
    "base_k",
    "binary_tree",
    "complete",
    "consensus_rate",
    "contraction",
    "d_equistatic",
    "describe",
    "erdos_renyi",
    "exponential",
    "file",
    "from_networkx",
    "gossip_cost",
    "hierarchical",
    "hyper_hypercube",
    "hypercube",
    "limit_weights",
    "margulis",
    "matcha",
    "od_equidyn",
    "one_peer_exponential",
    "ou_equidyn",
    "period_factor",
    "periodic",
    "plan",
    "random_matching",
    "random_regular",
    "random_ring",
    "reweight",
    "ring",
    "ring_lattice",
    "rounds_to_consensus",
    "schedule",
    "second_moment",
    "simple_base",
    "simulate",
    "spectral_gap",
    "star",
    "symmetric_exponential",
    "torus",
    "u_equistatic",
    "watts_strogatz",
]
