# Read by CMake (3.21 or newer) while Horovod's wheel is built: CMAKE_TOOLCHAIN_FILE names it.
#
# Horovod 0.28.1 asks CMake for C++14, current PyTorch headers need C++20.  CMake reads this file a second
# time, through the next line, once it knows the compiler; then the option behind "C++14" can be replaced.
set(CMAKE_USER_MAKE_RULES_OVERRIDE_CXX "${CMAKE_CURRENT_LIST_FILE}")
set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "-std=c++20")
# Horovod's own choice, -O3 -g, takes twice the time and gives a wheel fifteen times as large.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO_INIT "-O2 -DNDEBUG")
# The baseline runs on the CPU unless CUDA is asked for, whatever compilers the machine has.
if(NOT "$ENV{HOROVOD_GPU}" STREQUAL "CUDA")
  set(CMAKE_CUDA_COMPILER NOTFOUND)
  set(CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit TRUE)
endif()
# Libraries are found relative to the installed module, so the wheel serves any environment.
set(CMAKE_BUILD_WITH_INSTALL_RPATH TRUE)
set(CMAKE_INSTALL_RPATH "\$ORIGIN/../../../..;\$ORIGIN/../../torch/lib")
# A site's MPI lies outside the environment: keep the path it was linked from as well.
if("$ENV{HVD_GOSSIP_MPI_KIND}" STREQUAL "system")
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH TRUE)
endif()
