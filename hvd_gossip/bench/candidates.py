"""What is measured beside each other: gossip, allreduce, and the least that either could take."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hvd_gossip.comm import horovod_allreduce, mpi as MPI
from hvd_gossip.comm.chunks import CHUNK_BYTES
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.fusion import FlatParameters
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.comm.shared import SharedVectors
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, ring, schedule
from hvd_gossip.mixing import WIRES


class Candidate(NamedTuple):
    """Something that can be done again and again.

    Attributes:
        name: as it stands in the table.
        run: does it once, on every rank.
        sent: bytes and messages that have left this rank so far, and to how many neighbours, where that is known.
        free: gives back what it holds.
    """

    name: str
    run: Callable[[], Any]
    sent: Callable[[], tuple[int, int, int]] | None = None
    free: Callable[[], None] = lambda: None


def memory_copy(world: World, shapes: Sequence[torch.Size]) -> Candidate:
    """A plain copy of the buffer: what touching it once costs."""
    source, target = flat(shapes), flat(shapes)
    return Candidate("memory copy", lambda: target.copy_(source))


def mpi_allreduce(world: World, shapes: Sequence[torch.Size]) -> Candidate:
    """MPI's own allreduce of the buffer, in place, and the division."""
    buffer = flat(shapes)

    def run() -> None:
        world.comm.Allreduce(MPI.IN_PLACE, buffer.numpy())
        buffer.div_(world.size)

    return Candidate("MPI allreduce", run)


def horovod(world: World, shapes: Sequence[torch.Size]) -> Candidate:
    """Horovod's average of the same tensors, all begun before the first is waited for."""
    hvd = horovod_allreduce.start(world)
    tensors = [torch.ones(shape) for shape in shapes]

    def run() -> None:
        handles = [hvd.allreduce_async_(t, op=hvd.Average, name=f"bench.{i}") for i, t in enumerate(tensors)]
        for handle in handles:
            hvd.synchronize(handle)

    return Candidate("Horovod allreduce", run)


def floor_messages(world: World, shapes: Sequence[torch.Size]) -> Candidate:
    """A ring average by the neighborhood collective alone, in a plain loop."""
    row, buffer, graphs = ring(world.size).row(world.rank), flat(shapes), DistGraphs(world)
    comm, degree = graphs[ring(world.size)], len(ring(world.size).row(world.rank).sources)
    chunks = buffer.split(CHUNK_BYTES // 4)
    spaces = [torch.empty(2, degree, len(chunks[0])) for _ in range(2)]

    def begin(index: int) -> tuple[Any, Tensor]:
        chunk, space = chunks[index], spaces[0][index % 2].flatten()[: degree * len(chunks[index])]
        return comm.Ineighbor_allgather(chunk.numpy(), space.numpy()), space.view(degree, -1)

    def run() -> None:
        ahead = begin(0)
        for index, chunk in enumerate(chunks):
            request, received = ahead
            if index + 1 < len(chunks):
                ahead = begin(index + 1)
            request.Wait()
            mean_into(chunk, chunk, row, list(received))

    return Candidate("floor: ring by messages", run, free=graphs.free)


def floor_shared(world: World, shapes: Sequence[torch.Size]) -> Candidate:
    """A ring average of what lies in shared memory, in a plain loop with one barrier."""
    row, length = ring(world.size).row(world.rank), sum(shape.numel() for shape in shapes)
    vectors = SharedVectors(world, world.node, [(torch.float32, length)])
    for place in vectors.own.places[0]:
        place.fill_(1.0)
    sides = itertools.cycle((0, 1))

    def pieces(rank: int, side: int) -> Sequence[Tensor]:
        return vectors.segments[rank].places[0][side].split(CHUNK_BYTES // 4)

    split = {(rank, side): pieces(rank, side) for rank in (world.rank, *row.sources.tolist()) for side in (0, 1)}

    def run() -> None:
        side = next(sides)
        world.node.Barrier()
        for index, out in enumerate(split[world.rank, 1 - side]):
            parts = [split[source, side][index] for source in row.sources.tolist()]
            mean_into(out, split[world.rank, side][index], row, parts)

    return Candidate("floor: ring in shared memory", run)


def mean_into(out: Tensor, own: Tensor, row: Row, parts: Sequence[Tensor]) -> None:
    """The average that both floors take, by one kernel for each neighbour."""
    weight, mean = row.self_weight, own
    for part, more in zip(parts, row.source_weights.tolist(), strict=True):
        weight += more
        mean = torch.lerp(mean, part, more / weight, out=out)


def gossip(world: World, shapes: Sequence[torch.Size], graph: str, path: str, wire: str = "none") -> Candidate:
    """Our average over a graph, a new one each round where the schedule says so."""
    mixer = NeighborMixer(world, schedule(graph, world.size), WIRES[wire], shared_memory=path == "shared")
    parameters = FlatParameters([torch.ones(shape) for shape in shapes])
    mixer.settle(parameters)
    rounds = itertools.count()

    def run() -> None:
        mixer.begin(next(rounds), 0)
        mixer.mix(parameters.buffers)

    rounding = "" if wire == "none" else f", {wire}"

    def sent() -> tuple[int, int, int]:
        return mixer.traffic.bytes, mixer.traffic.messages, mixer.traffic.neighbors

    return Candidate(f"gossip {graph}, {path}{rounding}", run, sent, mixer.free)


def exchanges(
    world: World, shapes: Sequence[torch.Size], graphs: Sequence[str], paths: Sequence[str], wires: Sequence[str]
) -> Iterator[Candidate]:
    """All that can run here."""
    yield memory_copy(world, shapes)
    if "shared" in paths and world.node.Get_size() == world.size > 1:
        yield floor_shared(world, shapes)
    if "messages" in paths:
        yield floor_messages(world, shapes)
    yield mpi_allreduce(world, shapes)
    if horovod_allreduce.installed():
        yield horovod(world, shapes)
    for graph, path, wire in itertools.product(graphs, paths, wires):
        yield gossip(world, shapes, graph, path, wire)


def flat(shapes: Sequence[torch.Size]) -> Tensor:
    """As many ones as all shapes hold."""
    return torch.ones(sum(shape.numel() for shape in shapes))
