"""Exists because builtin's CFLAGS drop -O3, -DMPI and -DOPENMP, so that ranks are not summed."""

from spack.package import *
from spack_repo.builtin.packages.xsbench.package import Xsbench as BuiltinXsbench


class Xsbench(BuiltinXsbench):
    __doc__ = BuiltinXsbench.__doc__

    git = "https://github.com/ANL-CESAR/XSBench.git"

    version("20-git", commit="ff7e9d40d85fc8d336b777b0559b6b1cb91c3dd6", preferred=True)

    conflicts("~openmp", when="~cuda", msg="the threaded version is the only one without CUDA")

    sanity_check_is_file = ["bin/XSBench"]

    @property
    def build_targets(self):
        if self.spec.satisfies("+cuda"):
            return super().build_targets
        mpi = self.spec.satisfies("+mpi")
        flags = f"-std=gnu99 -O3 {self.compiler.openmp_flag} -DOPENMP{' -DMPI' if mpi else ''}"
        compiler = self.spec["mpi"].mpicc if mpi else spack_cc
        return [f"CC={compiler}", f"CFLAGS={flags}", "LDFLAGS=-lm"]

    def test_runs(self):
        """the small problem gives the known checksum"""
        output = which(self.prefix.bin.XSBench)(
            "-m", "event", "-s", "small", output=str.split, error=str.split
        )
        check_outputs(r"Verification checksum: 945990 \(Valid\)", output)
