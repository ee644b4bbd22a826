"""Tests that nimc finds in a program's output why the program failed.

Tables map the right reason to the output. Outputs are rebuilt from public reports and from
captures. Names of hosts, users and files are replaced.
"""

from itertools import product
from pathlib import Path

import pytest

from records.last_words import Gist, cause_or_gist, unlabelled
from reframe_tests.workload import load_workload
from tests.captures import CAPTURES
from tests.cases.last_words import reason_reader
from tests.cases.shared_hosts import case_text
from tests.reframe_tests.captured import GOOD

BOX = "-" * 74
OMPI_INIT = f"""\
{BOX}
It looks like MPI_INIT failed for some reason; your parallel process is
likely to abort.  There are many reasons that a parallel process can
fail during MPI_INIT; some of which are due to configuration or environment
problems.  This failure appears to be an internal failure; here's some
additional information (which may only be relevant to an Open MPI
developer):

  {{}}
  --> Returned "Unreachable" (-12) instead of "Success" (0)
{BOX}
[n1:00041] *** An error occurred in MPI_Init
[n1:00041] *** reported by process [3073835009,281470681743361]
[n1:00041] *** on a NULL communicator
[n1:00041] *** Unknown error
[n1:00041] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
[n1:00041] ***    and MPI will try to terminate your MPI job as well)
"""
NO_COMPONENT = f"""\
{BOX}
No components were able to be opened in the pml framework.

This typically means that either no components of this type were
installed, or none of the installed components can be loaded.
Sometimes this means that shared libraries required by these
components are unable to be found/loaded.

  Host:      n1
  Framework: pml
{BOX}
"""
#: What srun prints after a process has ended.
EXITED = "srun: error: n1: task 0: Exited with exit code 1\nsrun: Terminating StepId=7.3\n"
CANCELLED = f"{EXITED}slurmstepd: error: *** STEP 7.3 ON n1 CANCELLED AT 2026-11-28T10:00:00 ***\n"
BAD_TERMINATION = """\

===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 41 RUNNING AT n1
=   EXIT CODE: 143
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
"""

PERFTEST = {
    "Couldn't connect to 10.1.0.2:18515; Unable to open file descriptor for socket connection": (
        "Couldn't connect to 10.1.0.2:18515\n"
        "Unable to open file descriptor for socket connection\n"
        "Unable to init the socket connection\n"
    ),
    "Unable to create QP.; Failed to create QP.": (
        "Unable to create QP.\nFailed to create QP.\nCouldn't create IB resources\n"
    ),
    "Failed to modify QP 434 to RTR; Unable to Connect the HCA's through the link": (
        " local address: LID 0000 QPN 0x01b2 PSN 0x5f2841\n"
        "Failed to modify QP 434 to RTR\nUnable to Connect the HCA's through the link\n"
    ),
    "Couldn't allocate MR; Failed to create MR": (
        "Couldn't allocate MR\nFailed to create MR\nCouldn't create IB resources\n"
    ),
    "Completion with error at client; Failed status 10: wr_id 0 syndrom 0x88": (
        " Completion with error at client\n Failed status 10: wr_id 0 syndrom 0x88\n"
        "scnt=128, ccnt=0\n"
    ),
    "Unexpected CM event bl blka 8; Unable to perform rdma_client function": (
        "Unexpected CM event bl blka 8\nUnable to perform rdma_client function\n"
        "Unable to init the socket connection\n"
    ),
    "ib_write_bw: error while loading shared libraries: libefa.so.1: cannot open shared"
    " object file: No such"
    " file or directory": (
        "ib_write_bw: error while loading shared libraries: libefa.so.1: cannot open shared object"
        " file: No such file or directory\n"
    ),
}
UCX = {
    "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)": case_text,
    "transport error: Endpoint timeout": (
        "Mon Dec 10 08:18:05 2018[1,8]<stderr>:[n1:41:0:41]    ud_iface.c:732  UCX Fatal: transport"
        " error: Endpoint timeout\nMon Dec 10 08:18:05 2018[1,8]<stderr>:==== backtrace ====\n"
    ),
    "UD endpoint 0x20d5970 to <no debug data>: unhandled timeout error": (
        "[n1:41:0:41]       ud_ep.c:270  Fatal: UD endpoint 0x20d5970 to <no debug data>: unhandled"
        " timeout error\n\n==== backtrace (tid:     41) ====\n 0 0x0000000000071 uct_ud_ep()"
        "  /u.c\n"
    ),
    "Error on QP 0x61f5 wqe[0]: Transport retry count exceeded (synd 0x15 vend 0x81) opcode SEND; "
    "Error Endpoint timeout was not handled for ep 0x1d33870 - rc_mlx5/mlx5_2:1": (
        "[1516700569.600192] [n1:41:0]    ib_mlx5_log.c:113  UCX  ERROR Error on QP 0x61f5 wqe[0]:"
        " Transport retry count exceeded (synd 0x15 vend 0x81) opcode SEND\n"
        "[1516700569.601083] [n1:41:0]     ucp_worker.c:437  UCX  ERROR Error Endpoint timeout was"
        " not handled for ep 0x1d33870 - rc_mlx5/mlx5_2:1\n"
    ),
    "client failed. connect() failed: Connection refused": (
        "[1795228528.566104] [n1:41:0]        perftest.c:405  UCX  ERROR client failed. connect()"
        " failed: Connection refused\n"
    ),
    "Local protection error on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/0)": (
        "[n1:41   :0:41] ib_mlx5_log.c:177  Local protection error on mlx5_0:1/IB (synd 0x4 vend"
        " 0x51 hw_synd 0/0)\n[n1:41   :0:41] ib_mlx5_log.c:177  RC QP 0x1 wqe[0]: RDMA_WRITE\n"
        "==== backtrace (tid:     41) ====\n 0  /l.so(ucs_handle_error+0x254) [0x7f]\n"
    ),
    "Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)": (
        "[n1:41   :0:41] Caught signal 11 (Segmentation fault: address not mapped to object at"
        " address 0x8)\n==== backtrace (tid:     41) ====\n 0  /l.so(ucs_handle_error+0x254)"
        " [0x7f]\n"
    ),
    "ibv_create_cq(cqe=4096) failed: Cannot allocate memory": (
        "[1548304905.378218] [n1:41 :0]       ib_iface.c:690  UCX  ERROR ibv_create_cq(cqe=4096)"
        " failed: Cannot allocate memory\n"
    ),
}
OPEN_MPI_4 = {
    "PML ucx cannot be selected": case_text,
    "No components were able to be opened in the pml framework.": (
        f"{NO_COMPONENT}[n1:1724353] PML ucx cannot be selected\n"
    ),
    "ibv_create_cq(cqe=4096) failed: Cannot allocate memory": (
        f"{BOX}\nWARNING: There was an error initializing an OpenFabrics device.\n\n"
        f"  Local host:   n1\n  Local device: mlx4_0\n{BOX}\n"
        "[1548304905.378218] [n1:41 :0]       ib_iface.c:690  UCX  ERROR ibv_create_cq(cqe=4096)"
        " failed: Cannot allocate memory\n[n1:00041] pml_ucx.c:212 Error: Failed to create"
        " UCP worker\n"
    ),
    "UCP worker does not support MPI_THREAD_MULTIPLE": (
        "[n1:00041] pml_ucx.c:313  Error: UCP worker does not support MPI_THREAD_MULTIPLE\n"
        f"{OMPI_INIT.format('PML ucx cannot be selected')}"
    ),
    "pmix_psec_base_open failed": (
        f"{BOX}\nIt looks like pmix_init failed for some reason; your parallel process is\n"
        "likely to abort.  There are many reasons that a parallel process can\n"
        "fail during pmix_init; some of which are due to configuration or\n"
        "environment problems.\n\n  pmix_psec_base_open failed\n"
        f"  --> Returned value -46 instead of PMIX_SUCCESS\n{BOX}\n"
        "[n1:12255] PMIX ERROR: NOT-FOUND in file server/pmix_server.c at line 229\n"
    ),
    "There are not enough slots available in the system to satisfy the 2 slots that were requested"
    " by the application:": (
        f"{BOX}\nThere are not enough slots available in the system to satisfy the 2\n"
        "slots that were requested by the application:\n\n  mpi_put\n\n"
        f"Either request fewer slots for your application, or make more slots\navailable.\n{BOX}\n"
    ),
    "ORTE has lost communication with a remote daemon.": (
        f"{BOX}\nORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[32679,0],0] on node n1\n  Remote daemon: [[32679,0],1] on node n2\n\n"
        "This is usually due to either a failure of the TCP network\n"
        f"connection to the node.\n{BOX}\n"
    ),
    'The application appears to have been direct launched using "srun", but OMPI was not built with'
    " SLURM's PMI support and therefore cannot": (
        f'{BOX}\nThe application appears to have been direct launched using "srun",\n'
        "but OMPI was not built with SLURM's PMI support and therefore cannot\n"
        f"execute. There are several options for building PMI support under\n{BOX}\n{EXITED}"
    ),
    "PSM2 can't open hfi unit: -1 (err=23)": (
        f"n1.30734PSM2 can't open hfi unit: -1 (err=23)\n{BOX}\n"
        "PSM2 was unable to open an endpoint. Please make sure that the network link is\n"
        f"active on the node and the hardware is functioning.\n{BOX}\n"
    ),
    "mpiexec has detected an attempt to run as root.": (
        f"{BOX}\nmpiexec has detected an attempt to run as root.\n\n"
        "Running as root is *strongly* discouraged as any mistake (e.g., in\n"
        "defining TMPDIR) or bug can result in catastrophic damage to the OS\n"
        f"file system, leaving your system in an unusable state.\n{BOX}\n"
    ),
}
OPEN_MPI_5 = {
    "ompi_mpi_init: ompi_mpi_instance_init failed": (
        OMPI_INIT.format("ompi_mpi_init: ompi_mpi_instance_init failed")
    ),
    "PML ucx cannot be selected": (
        f"[prterun-n1-41@1,0]<stderr>: [n1:00041] PML ucx cannot be selected\n{NO_COMPONENT}"
    ),
    "PRTE has lost communication with a remote daemon.": (
        f"{BOX}\nPRTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [prterun-n1-41@0,0] on node n1\n"
        "  Remote daemon: [prterun-n1-41@0,1] on node n2\n\n"
        f"This is usually due to either a failure of the TCP network\n{BOX}\n"
        f"{BOX}\nprterun has exited due to process rank 1 with PID 42 on node n2 exiting\n"
    ),
    "An PRTE daemon has unexpectedly failed after launch and before communicating back to"
    " mpirun.": (
        f"{BOX}\nAn PRTE daemon has unexpectedly failed after launch and before\n"
        "communicating back to mpirun. This could be caused by a number\n"
        f"of factors, including an inability to create a connection back\n{BOX}\n"
    ),
    "prterun was unable to start the specified application as it encountered an error:": (
        f"{BOX}\nprterun was unable to start the specified application as it encountered an\n"
        "error:\n\nError code: -106\nNode: n1\n\nwhen attempting to start process rank 0.\n"
        f"{BOX}\n"
    ),
    "MPI_ERR_WIN: invalid window": (
        "[n1:00041] *** An error occurred in MPI_Put\n"
        "[n1:00041] *** reported by process [1,0]\n[n1:00041] *** on communicator MPI_COMM_WORLD\n"
        "[n1:00041] *** MPI_ERR_WIN: invalid window\n"
        "[n1:00041] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
    ),
    "mmap of rcvhdr_bufbase (0xdabbad00040b0000) size 262144 failed: Resource temporarily"
    " unavailable": (
        "c5.190935map_hfi_mem: mmap of rcvhdr_bufbase (0xdabbad00040b0000) size 262144 failed:"
        " Resource temporarily unavailable\n[c5:190935] *** Process received signal ***\n"
        "[c5:190935] Signal: Aborted (6)\n[c5:190935] [ 0] /lib64/libpthread.so.0(+0x12cf0)[0x7f]\n"
    ),
}
MPICH = {
    "OFI fi_getinfo() failure": (
        "Abort(204069007): Fatal error in internal_Init_thread: Other MPI error, error stack:\n"
        "internal_Init_thread(45784): MPI_Init_thread(argc=(nil), argv=(nil), required=3,"
        " provided=0x7fff3aff24d4) failed\nMPII_Init_thread(263)......: \n"
        "MPID_Init(516).............: \nMPIDI_OFI_init_local(601)..: \n"
        "MPIDI_OFI_find_provider(84): \nfind_provider(170).........: OFI fi_getinfo() failure\n"
    ),
    "OFI endpoint open failed (ofi_init.c:982:create_vni_context:Cannot allocate memory)": (
        "n1:rank3.mpi_put: Failed to get eth0 (unit 0) cpu set\n"
        "Abort(606197647): Fatal error in internal_Init: Other MPI error, error stack:\n"
        "internal_Init(66)........: MPI_Init(argc=0x7ffed119a5ec, argv=0x7ffed119a5e0) failed\n"
        "MPII_Init_thread(234)....: \nMPIDI_OFI_init_local(604): \n"
        "create_vni_context(982)..: OFI endpoint open failed"
        f" (ofi_init.c:982:create_vni_context:Cannot allocate memory)\n{BAD_TERMINATION}"
    ),
    "PMI_KVS_Put returned -1": (
        "Fatal error in internal_Init: Other MPI error, error stack:\n"
        "internal_Init(45298).....: MPI_Init(argc=0x7fffffff68fc, argv=0x7fffffff68f0) failed\n"
        "MPII_Init_thread(208)....:\nMPID_Init(67)............:\n"
        "init_world(171)..........: channel initialization failed\nMPIDI_CH3_Init(84).......:\n"
        "MPIDI_PG_SetConnInfo(513):\nMPIR_pmi_kvs_put(278)....: PMI_KVS_Put returned -1\n"
    ),
    "Invalid communicator": (
        "Abort(201935621) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Comm_size: Invalid"
        " communicator, error stack:\n"
        "PMPI_Comm_size(109): MPI_Comm_size(comm=0x18d12a0, size=0x2000000b049c) failed\n"
        "PMPI_Comm_size(66).: Invalid communicator\n"
    ),
    "execvp error on file ./mpi_put (No such file or directory)": (
        "[proxy:0:0@n1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file"
        f" ./mpi_put (No such file or directory)\n{BAD_TERMINATION}"
    ),
    "OFI poll failed (ofi_events.c:760:MPIDI_OFI_handle_cq_error:Input/output error)": (
        "Abort(1) on node 1 (rank 1 in comm 0): Fatal error in PMPI_Win_flush: Other MPI error,"
        " error stack:\nPMPI_Win_flush(121).............: MPI_Win_flush(rank=0, win=0xa0000001)"
        " failed\nMPIDI_OFI_handle_cq_error(1062): OFI poll failed"
        " (ofi_events.c:760:MPIDI_OFI_handle_cq_error:Input/output error)\n"
    ),
}
CRAY_MPICH = {
    "OFI EP enable failed (ofi_init.c:1342:create_endpoint:No space left on device)": case_text,
    "Invalid port": (
        "MPICH ERROR [Rank 0] [job id 7.0] [Tue Jan 31 15:16:32 2023] [n1] - Abort(673264166) (rank"
        " 0 in comm 0): Fatal error in PMPI_Comm_connect: Invalid port, error stack:\n"
        'PMPI_Comm_connect(125).........: MPI_Comm_connect(port="tag#0", MPI_INFO_NULL, root=0)'
        " failed\nMPID_Comm_connect(192).........:\n(unknown)(): Invalid port\n\naborting job:\n"
        "Fatal error in PMPI_Comm_connect: Invalid port, error stack:\n(unknown)(): Invalid port\n"
        f"{CANCELLED}srun: error: n2: tasks 48-55: Terminated\n"
    ),
    "OFI fi_open domain failed (ofi_init.c:599:MPIDI_OFI_mpi_init_hook:Invalid argument)": (
        "MPICH ERROR [Rank 0] [job id 7] [Thu May 16 17:41:46 2024] [n1] - Abort(1091983)"
        " (rank 0 in"
        " comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\n"
        "MPICH ERROR [Rank 1] [job id 7] [Thu May 16 17:41:46 2024] [n2] -"
        " MPIR_Init_thread(170).......:\nMPID_Init(501)..............:\n"
        "Abort(1091983) (rank 1 in comm 0): Fatal error in PMPI_Init: Other MPI error, error"
        " stack:\n"
        "MPIDI_OFI_mpi_init_hook(599): OFI fi_open domain failed"
        " (ofi_init.c:599:MPIDI_OFI_mpi_init_hook:Invalid argument)\n"
    ),
    "MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked": (
        "MPICH ERROR [Rank 0] [job id 7.0] [Tue Jan 31 15:16:32 2023] [n1] - Abort(-1) (rank 0 in"
        " comm 0): MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not"
        " linked\n"
        f" (Other MPI error)\n\naborting job:\n{EXITED}"
    ),
    "OFI poll failed (ofi_events.c:1062:MPIDI_OFI_handle_cq_error:Input/output error -"
    " UNDELIVERABLE)": (
        "MPICH ERROR [Rank 5] [job id 7.0] [Tue Jan 31 15:16:32 2023] [n1] - Abort(203035407) (rank"
        " 5 in comm 0): Fatal error in PMPI_Waitall: Other MPI error, error stack:\n"
        "PMPI_Waitall(339)...............: MPI_Waitall(count=2, req_array=0x1, status_array=0x1)"
        " failed\nMPIDI_OFI_handle_cq_error(1062): OFI poll failed"
        " (ofi_events.c:1062:MPIDI_OFI_handle_cq_error:Input/output error - UNDELIVERABLE)\n"
        f"{CANCELLED}"
    ),
}
INTEL_MPI = {
    "OFI addrinfo() failed (ofi_init.c:1061:MPIDI_OFI_mpi_init_hook:No data available)": (
        "3: Abort(1091215) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error,"
        " error stack:\n3: MPIR_Init_thread(136)........:\n3: MPID_Init(1138)..............:\n"
        "3: MPIDI_OFI_mpi_init_hook(1061): OFI addrinfo() failed"
        " (ofi_init.c:1061:MPIDI_OFI_mpi_init_hook:No data available)\n"
        "3: In: PMI_Abort(1091215, Fatal error in PMPI_Init: Other MPI error, error stack:\n"
    ),
    "OFI get address vector map failed": (
        "/opt/mpi/bin/mpirun: 74: [: intel64: unexpected operator\n"
        "Abort(1091471) on node 185 (rank 185 in comm 0): Fatal error in PMPI_Init: Other"
        " MPI error,"
        " error stack:\nMPIR_Init_thread(703)........: \nMPID_Init(958)...............: \n"
        "MPIDI_OFI_mpi_init_hook(1382): OFI get address vector map failed\n"
    ),
    "ofi fabric is not available and fallback fabric is not enabled": (
        "[0] [0] MPI startup(): Multi-threaded optimized library\n"
        "[1] [1] MPI startup(): ofi fabric is not available and fallback fabric is not enabled\n"
    ),
    "unable to run bstrap_proxy on n1 (pid 12608, exit code 256)": (
        "[mpiexec@n1] check_exit_codes (../hydra_demux_poll.c:117): unable to run"
        " bstrap_proxy on n1"
        " (pid 12608, exit code 256)\n"
        "[mpiexec@n1] poll_for_event (../hydra_demux_poll.c:159): check exit codes error\n"
        "[mpiexec@n1] HYD_bstrap_setup (../i_hydra_bstrap.c:1062): error waiting for event\n"
        "[mpiexec@n1] Possible reasons:\n[mpiexec@n1] 1. Host is unavailable. Please check"
        " that all\n"
    ),
    "Unable to run bstrap_proxy on localhost:2 (pid 13546, exit code 65280)": (
        "[mpiexec@n1] Error: Unable to run bstrap_proxy on localhost:2 (pid 13546, exit code"
        " 65280)\n"
        "[mpiexec@n1] poll_for_event (../hydra_demux_poll.c:159): check exit codes error\n"
    ),
    "PSM3 can't open nic unit: 0 (err=23)": (
        "n1:rank1: PSM3 can't open nic unit: 0 (err=23)\n"
        "Abort(1614735) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Unknown"
        " error class,"
        " error stack:\nMPIR_Init_thread(192)........: \nMPIDI_OFI_mpi_init_hook(1653): \n"
        "create_vni_context(2253).....: OFI endpoint open failed"
        " (ofi_init.c:2253:create_vni_context:Invalid argument)\n"
    ),
}
SRUN = {
    "srun: error: mpi/pmix_v5: init: (null) [0]: mpi_pmix.c:193: pmi/pmix: can not load PMIx"
    " library": (
        "srun: error:  mpi/pmix_v5: init: (null) [0]: mpi_pmix.c:193: pmi/pmix: can not load PMIx"
        " library\nsrun: error: Couldn't load specified plugin name for mpi/pmix: Plugin init()"
        " callback failed\nsrun: error: MPI: Cannot create context for mpi/pmix\n"
        "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types\n"
    ),
    "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files": (
        "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files\n"
        "srun: error: cannot find mpi plugin for mpi/pmix\n"
        "srun: error: cannot create mpi context for mpi/pmix\n"
    ),
    "srun: error: Unable to create step for job 7: Memory required by task is not available": (
        "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
        "srun: Job 7 step creation still disabled, retrying (Requested nodes are busy)\n"
        "srun: error: Unable to create step for job 7: Memory required by task is not available\n"
    ),
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.3. Some of the step tasks have"
    " been OOM Killed.": (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.3. Some of the step tasks have"
        f" been OOM Killed.\nsrun: error: n1: tasks 1-3: Out Of Memory\n{CANCELLED}"
    ),
    "srun: error: n1: task 289: Bus error": f"srun: error: n1: task 289: Bus error\n{CANCELLED}",
    "slurmstepd: error: *** STEP 7.3 ON n1 CANCELLED AT 2026-11-28T10:00:00 DUE TO TIME"
    " LIMIT ***": (
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "slurmstepd: error: *** STEP 7.3 ON n1 CANCELLED AT 2026-11-28T10:00:00 DUE TO TIME LIMIT"
        " ***\nsrun: error: n1: task 0: Terminated\n"
    ),
    "slurmstepd: error: execve(): /opt/mpi_put: No such file or directory": (
        "slurmstepd: error: couldn't chdir to `/scratch': No such file or directory: going to /tmp"
        " instead\nslurmstepd: error: execve(): /opt/mpi_put: No such file or directory\n"
        "srun: error: n1: task 0: Exited with exit code 2\n"
    ),
    # Nodes lack a library or the folder TMPDIR of the login node, or allow less than its limits.
    "slurmstepd: error: execve(): /opt/u/mpi_put: No such file or directory": (
        "ERROR: ld.so: object '/opt/xalt/lib64/libxalt_init.so' from LD_PRELOAD cannot be preloaded"
        " (cannot open shared object file): ignored.\n"
        "slurmstepd: error: Unable to create TMPDIR [/scratch/login/u]: No such file or directory\n"
        "slurmstepd: error: Setting TMPDIR to /tmp\n"
        "slurmstepd: error: Can't propagate RLIMIT_MEMLOCK of 65536 from submit host: Operation not"
        " permitted\nslurmstepd: error: execve(): /opt/u/mpi_put: No such file or directory\n"
        "srun: error: n1: task 0: Exited with exit code 2\n"
    ),
    "srun: error: Task launch for StepId=7.3 failed on node n1: Communication connection failure": (
        "srun: error: Task launch for StepId=7.3 failed on node n1: Communication connection"
        " failure\nsrun: error: Application launch failed: Communication connection failure\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    ),
}
#: Injector, right reason, and output. Applications can also fail with the outputs of MPI and srun.
FAILURES = [
    *(("perftest", right, text) for right, text in PERFTEST.items()),
    *(("ucx", right, text) for right, text in UCX.items()),
    *(
        ("mpi_put", right, text)
        for table in (OPEN_MPI_4, OPEN_MPI_5, MPICH, CRAY_MPICH, INTEL_MPI, SRUN)
        for right, text in table.items()
    ),
    # The output has no cause.
    ("mpi_put", "srun: error: n1: task 0: Exited with exit code 1", EXITED),
]
CASE_NAMES = {
    "ucx": "ucx_transport_retry_fatal",
    "PML": "mpi_put_ompi_init_box",
    "OFI": "mpi_put_cray_error",
}


def printed(injector, right, text):
    """Return the output of a row, which may be in the file of a case."""
    if text is not case_text:
        return text
    return case_text(next(name for key, name in CASE_NAMES.items() if key in (injector, right[:3])))


def short_id(value):
    """Return the beginning of a text as a test id; for others None, so that pytest numbers them."""
    return value[:40] if isinstance(value, str) else None


@pytest.mark.parametrize(("injector", "right", "text"), FAILURES, ids=short_id)
def test_the_reason_is_the_first_line_that_states_a_cause(injector, right, text):
    text = printed(injector, right, text)
    reason = reason_reader(injector)(text, Path())
    assert reason.removeprefix("exit status 1: ") == right


@pytest.mark.parametrize(
    ("right", "text"),
    [row for table in (OPEN_MPI_4, OPEN_MPI_5, MPICH, CRAY_MPICH, INTEL_MPI, SRUN)
     for row in table.items()],
    ids=short_id,
)  # fmt: skip
def test_an_application_ends_for_the_same_reason(right, text):
    """The reason is found after other output, on standard output and on standard error."""
    text = printed("", right, text)
    before = "LAMMPS (2 Aug 2023)\nStep Temp\n0 1.44\n"
    for err, out in (
        (text, before),
        ("", before + text),
        (f"perl: warning: no locale\n{text}", ""),
    ):
        assert cause_or_gist(err, out) == right


@pytest.mark.parametrize("label", ["0: ", " 7: ", "[3] ", "[1,0]<stderr>:", "[1,12]<stdout>: ",
                                   "[prterun-n1-4242@1,3]<stderr>: ",
                                   "Sat Nov 28 10:00:00 2026[1,0]<stderr>:"])  # fmt: skip
def test_labels_hide_no_cause(label):
    for right, text in [*MPICH.items(), *SRUN.items()]:
        labelled = "".join(f"{label}{line}\n" for line in text.splitlines())
        assert cause_or_gist(labelled) == right


LABELS = ["0: ", "[0] ", "[1,0]<stdout>:", "[prterun-n1-4242@1,0]<stdout>: "]


@pytest.mark.parametrize(("label", "row"), [*product(LABELS, GOOD)], ids=str)
def test_labels_change_no_figure(label, row):
    capture, value, _ = row
    text = (CAPTURES / f"{capture}.txt").read_text()
    labelled = "".join(f"{label}{line}\n" for line in text.splitlines())
    assert load_workload(capture.split("/")[0]).parse(labelled).value == pytest.approx(value)


def test_a_number_before_a_few_lines_is_no_label():
    table = "cores and their sets\n0: 1.5\n1: 2.5\nsum 4.0\nmean 2.0\n"
    assert unlabelled(table) == table
    assert unlabelled("0: a\n\n1: b\n") == "a\n\nb\n"


def test_the_first_cause_is_the_reason_and_the_program_s_own_fault_is_a_cause():
    gist = Gist()
    gist.add("[n1:41:0:41] ib_mlx5_log.c:1  Local protection error on mlx5_0:1/IB")
    gist.add_fault("client failed")
    assert gist.reason() == "Local protection error on mlx5_0:1/IB"
    gist = Gist()
    gist.add_fault("client failed")
    gist.add("[n1:41:0:41] ib_mlx5_log.c:1  Local protection error on mlx5_0:1/IB")
    assert gist.reason() == "client failed"
