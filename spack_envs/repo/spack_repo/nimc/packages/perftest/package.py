"""Exists because builtin has no perftest; goes when it has."""

from spack.package import *
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage


class Perftest(AutotoolsPackage):
    """Bandwidth and latency tests of RDMA verbs (ib_write_bw and its kin)."""

    homepage = "https://github.com/linux-rdma/perftest"
    git = "https://github.com/linux-rdma/perftest.git"

    license("GPL-2.0-only OR BSD-2-Clause", checked_by="nimc")

    version("6.29", commit="00b55b6660d0170dabe2c1b49193e8fbe265086e")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("rdma-core")
    depends_on("pciutils")

    sanity_check_is_file = ["bin/ib_write_bw", "bin/ib_read_bw", "bin/ib_send_bw"]

    def configure_args(self):
        return ["--disable-cudart"]

    def test_version(self):
        """ib_write_bw tells its version"""
        # It exits with 1 after it has told its version.
        tell = which(self.prefix.bin.ib_write_bw)
        output = tell("--version", output=str.split, error=str.split, fail_on_error=False)
        check_outputs("Version: 6", output)
