/* Counts a process with PAPI's high-level interface, without a change of the binary. This library
   is preloaded. It begins a region after MPI_Init and ends the region before MPI_Finalize. For a
   program without MPI, NIMC_PAPI_WHOLE is set, and the region is the whole program. Only the first
   thread is counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <papi.h>
#include <stdlib.h>

#define REGION "application"

/* These are weak, since a program without MPI has none of them. */
extern int PMPI_Init(int *argc, char ***argv) __attribute__((weak));
extern int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
    __attribute__((weak));
extern int PMPI_Finalize(void) __attribute__((weak));

int MPI_Init(int *argc, char ***argv);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Finalize(void);

static int counting;

static void begin(void) {
  if (!counting) counting = PAPI_hl_region_begin(REGION) == PAPI_OK;
}

static void end(void) {
  if (!counting) return;
  counting = 0;
  PAPI_hl_region_end(REGION);
  PAPI_hl_stop();
}

int MPI_Init(int *argc, char ***argv) {
  int status = PMPI_Init(argc, argv);
  begin();
  return status;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int status = PMPI_Init_thread(argc, argv, required, provided);
  begin();
  return status;
}

int MPI_Finalize(void) {
  end();
  return PMPI_Finalize();
}

/* MPI's functions for Fortran may call PMPI_Init, as those of Open MPI do, or MPI_Init: then
   `counting` lets one region begin. */
#define NEXT(name, ...) ((void (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
#define FORTRAN(suffix)                                                                  \
  void mpi_init##suffix(int *error);                                                     \
  void mpi_init_thread##suffix(int *required, int *provided, int *error);                \
  void mpi_finalize##suffix(int *error);                                                 \
  void mpi_init##suffix(int *error) {                                                    \
    NEXT("mpi_init" #suffix, int *)(error);                                              \
    begin();                                                                             \
  }                                                                                      \
  void mpi_init_thread##suffix(int *required, int *provided, int *error) {               \
    NEXT("mpi_init_thread" #suffix, int *, int *, int *)(required, provided, error);     \
    begin();                                                                             \
  }                                                                                      \
  void mpi_finalize##suffix(int *error) {                                                \
    end();                                                                               \
    NEXT("mpi_finalize" #suffix, int *)(error);                                          \
  }

FORTRAN(_)     /* mpif.h and the module mpi */
FORTRAN(_f08_) /* the module mpi_f08 */

__attribute__((constructor)) static void loaded(void) {
  if (!getenv("NIMC_PAPI_WHOLE")) return;
  unsetenv("NIMC_PAPI_WHOLE"); /* not in its children */
  begin();
}

__attribute__((destructor)) static void unloaded(void) { end(); }
