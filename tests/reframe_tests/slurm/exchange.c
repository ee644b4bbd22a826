/* Two ranks exchange MIB mebibytes each; rank 0 then prints the file MELT.   exchange MIB MELT */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_B = 1 << 20 };
static char sent[MESSAGE_B], received[MESSAGE_B];

int main(int argc, char **argv)
{
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < atoi(argv[1]); i++)
        MPI_Sendrecv(sent, MESSAGE_B, MPI_CHAR, 1 - rank, 0, received, MESSAGE_B, MPI_CHAR,
                     1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    if (rank == 0) {
        FILE *melt = fopen(argv[2], "r");
        for (int c; melt != NULL && (c = getc(melt)) != EOF;)
            putchar(c);
    }
    return 0;
}
