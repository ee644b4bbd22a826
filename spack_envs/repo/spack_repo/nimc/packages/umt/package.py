"""Exists because builtin has no UMT, and the recipe in its source is of the old API."""

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Umt(CMakePackage):
    """Radiation transport proxy application on the Teton library."""

    homepage = "https://github.com/LLNL/UMT"
    git = "https://github.com/LLNL/UMT.git"

    license("MIT")

    # Its authors corrected the benchmark problems after 5.3.0, which tells its energies otherwise.
    version("5.3.0a", commit="ed70b58e77b6dfb29b6b7f01d53bde2a02b7f218")

    variant("openmp", default=True, description="Build with OpenMP")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("cmake@3.13.3:", type="build")
    depends_on("mpi")
    # The benchmark problems are on tiled meshes.
    depends_on("conduit@0.8.9:")
    depends_on("conduit+fortran+mpi~shared~hdf5~python~parmetis~test~examples~utilities")

    root_cmakelists_dir = "src"

    sanity_check_is_file = ["bin/test_driver"]

    def patch(self):
        # The source takes every conduit 0.9.x with x below 9 for one without tiled meshes.
        newer = "(CONDUIT_VERSION_MINOR > 8 || CONDUIT_VERSION_PATCH >= 9)"
        filter_file(r"CONDUIT_VERSION_PATCH >= 9$", newer, "src/teton/driver/test_driver.cc")

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

    def test_runs(self):
        """one cycle of the benchmark problem keeps its energy"""
        driver = which(self.prefix.bin.test_driver)
        words = ["-c", "1", "-B", "local", "-d", "1,1,1", "--benchmark_problem", "2"]
        check_outputs("RESULT CHECK PASSED", driver(*words, output=str.split, error=str.split))
