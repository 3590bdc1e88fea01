#!/usr/bin/env bash
# From a bare machine to a comparison: 4 replicas learn the digits by Horovod's allreduce, by gossip on a ring, and
# by gossip on a static exponential graph.
#
#   bash mpi_scripts/quickstart.sh [options of hvd-gossip train, for all three runs]
#
# Settings: those of setup.sh, and
#   HVD_GOSSIP_RANKS   replicas                 (default: 4)
#   HVD_GOSSIP_RUNS    where run folders go     (default: runs/quickstart in the current folder; removed first)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ranks=${HVD_GOSSIP_RANKS:-4}
runs=${HVD_GOSSIP_RUNS:-runs/quickstart}

bash "$here/setup.sh"
# shellcheck disable=SC1091
HVD_GOSSIP_ONE_MACHINE=1 . "$here/env.sh"

# Only what an earlier quick start made is removed.
for name in allreduce ring exponential; do rm -rf "${runs:?}/$name"; done
job() {
  local name=$1; shift
  printf '\n== %s ==\n' "$name: mpirun -n $ranks hvd-gossip train --run $runs/$name $*"
  mpirun -n "$ranks" hvd-gossip train --run "$runs/$name" "$@"
}
if python -c 'import horovod' 2>/dev/null; then carrier=horovod; else carrier=mpi; fi
job allreduce --algorithm allreduce --allreduce "$carrier" "$@"
job ring --graph ring "$@"
job exponential --graph exponential "$@"
echo
hvd-gossip report "$runs/allreduce" "$runs/ring" "$runs/exponential" --plot "$runs/curves.png"
echo "run folders: $runs/allreduce $runs/ring $runs/exponential (tensorboard --logdir $runs shows them)"
