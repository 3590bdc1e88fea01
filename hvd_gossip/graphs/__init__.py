"""Communication graphs and their mixing matrices: pure mathematics, no MPI."""

from hvd_gossip.graphs.schedules import GRAPHS, Schedule, Static, schedule
from hvd_gossip.graphs.static import complete, exponential, ring
from hvd_gossip.graphs.topology import Circulant, MatrixTopology, Row, Topology

__all__ = [
    "GRAPHS",
    "Circulant",
    "MatrixTopology",
    "Row",
    "Schedule",
    "Static",
    "Topology",
    "complete",
    "exponential",
    "ring",
    "schedule",
]
