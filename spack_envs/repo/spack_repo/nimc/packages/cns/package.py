"""Exists because builtin dropped cns-nospec in 2018; goes when the code is back in builtin."""

from spack.package import *
from spack_repo.builtin.build_systems.makefile import MakefilePackage


class Cns(MakefilePackage):
    """Compressible Navier-Stokes proxy application on BoxLib (Tutorials/Exp_CNS_NoSpec_F)."""

    homepage = "https://github.com/BoxLib-Codes/BoxLib"
    git = "https://github.com/BoxLib-Codes/BoxLib.git"

    version("2018.10", commit="330b14363148ebb0b85d1ffd59d07874ddc79e6d")

    variant("openmp", default=True, description="Build with OpenMP")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("mpi")

    conflicts("%gcc@:4.4", msg="BoxLib needs gfortran 4.5 or newer")

    build_directory = "Tutorials/Exp_CNS_NoSpec_F"
    parallel = False  # the makefiles of BoxLib do not know all of the modules' dependencies

    sanity_check_is_file = ["bin/cns"]

    def edit(self, spec, prefix):
        # Five seconds of sleep in the timed region would hide what the writers do.
        filter_file(r"^\s*call Sleep\(5\)", "", join_path(self.build_directory, "main.f90"))

    @property
    def build_targets(self):
        fortran = self.spec["mpi"].mpifc
        if self.spec.satisfies("%gcc@10:"):
            fortran += " -fallow-argument-mismatch"
        openmp = "t" if self.spec.satisfies("+openmp") else ""
        home = self.stage.source_path
        return [f"BOXLIB_HOME={home}", "COMP=gfortran", "NDEBUG=t", "MPI=t", f"OMP={openmp}"] + [
            f"FC={fortran}",
            f"F90={fortran}",
        ]

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        with working_dir(self.build_directory):
            (program,) = find(".", "main.*.exe")
            install(program, prefix.bin.cns)

    def test_runs(self):
        """two steps end with a run time"""
        with open("inputs", "w") as inputs:
            inputs.write("&probin\n nsteps=2\n plot_int=0\n n_cell=16\n max_grid_size=16\n/\n")
        output = which(self.prefix.bin.cns)("inputs", output=str.split, error=str.split)
        check_outputs("Run time", output)
