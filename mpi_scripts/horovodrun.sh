#!/usr/bin/env bash
# horovodrun with the arguments that make it work with Open MPI 4 and 5, also where ranks outnumber cores.
#
#   bash mpi_scripts/horovodrun.sh -np 4 hvd-gossip train --algorithm allreduce
#   bash mpi_scripts/horovodrun.sh -np 8 -H host1:4,host2:4 python train.py
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC1091
. "$here/env.sh"
# Horovod 0.28.1 writes -bind-to with one dash, which Open MPI 5 takes for the program to start.
exec horovodrun --mpi --binding-args="--bind-to none --map-by slot:OVERSUBSCRIBE" "$@"
