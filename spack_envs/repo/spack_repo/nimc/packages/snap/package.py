"""Exists because builtin blanks every flag (no -O3, no -fopenmp) and pins no version."""

from spack.package import *
from spack_repo.builtin.packages.snap.package import Snap as BuiltinSnap


class Snap(BuiltinSnap):
    __doc__ = BuiltinSnap.__doc__

    version("1.12", commit="e7ab43dfb0c16419d9a42d756141d5957ac526fc", preferred=True)

    parallel = False  # the makefile lists too few of the modules' dependencies

    sanity_check_is_file = ["bin/gsnap"]

    def edit(self, spec, prefix):
        pass  # all that is to be set is said on make's command line

    @property
    def build_targets(self):
        def yes(variant):
            return "yes" if self.spec.satisfies(f"+{variant}") else "no"

        fortran = self.spec["mpi"].mpifc if self.spec.satisfies("+mpi") else spack_fc
        flags = "-O3" if self.spec.satisfies("+opt") else "-O0 -g"
        if self.spec.satisfies("+openmp"):
            flags += f" {self.compiler.openmp_flag}"
        return [f"MPI={yes('mpi')}", f"OPENMP={yes('openmp')}", f"FORTRAN={fortran}"] + [
            "TARGET=gsnap",
            f"FFLAGS={flags}",
        ]

    def test_runs(self):
        """the sample input of the source converges"""
        sample = join_path(self.prefix.qasnap, "sample", "inp")
        with open(sample) as full, open("inp", "w") as serial:
            serial.write(full.read().replace("npey=2", "npey=1").replace("npez=2", "npez=1"))
        output = which(self.prefix.bin.gsnap)("inp", "out", output=str.split, error=str.split)
        check_outputs("Success! Done in a SNAP!", output)
