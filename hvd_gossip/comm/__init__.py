"""MPI and Horovod: the only folder that names them."""
