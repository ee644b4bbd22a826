"""Exists because builtin has no UMT, and the recipe in its source is of the old API."""

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Umt(CMakePackage):
    """Radiation transport proxy application on the Teton library."""

    homepage = "https://github.com/LLNL/UMT"
    git = "https://github.com/LLNL/UMT.git"

    license("MIT")

    version("5.3.0", commit="643f42b6c39ca709dfcbc5e88f4810a0934922cb")

    variant("openmp", default=True, description="Build with OpenMP")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("cmake@3.13.3:", type="build")
    depends_on("mpi")
    depends_on("conduit+fortran+mpi~shared~hdf5~python~parmetis~test~examples~utilities")

    root_cmakelists_dir = "src"

    sanity_check_is_file = ["bin/test_driver"]

    def cmake_args(self):
        mpi = self.spec["mpi"]
        args = [
            self.define_from_variant("ENABLE_OPENMP", "openmp"),
            self.define("CONDUIT_ROOT", self.spec["conduit"].prefix),
            self.define("MPI_CXX_COMPILER", mpi.mpicxx),
            self.define("MPI_Fortran_COMPILER", mpi.mpifc),
        ]
        if self.spec.satisfies("%gcc@10:"):
            args.append(self.define("CMAKE_Fortran_FLAGS", "-fallow-argument-mismatch"))
        return args
