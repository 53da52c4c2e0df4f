/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares every byte that MPI moves between its processes: mpi_verify [-m].
 *
 * Messages go round a ring, many at once arrive in another order than the
 * receives, then come reductions, all-to-all and broadcasts, and one-sided
 * writes, reads and counters. Process 0 prints the number of comparisons and of
 * machines. A difference ends the job. With -m there are only messages, for
 * MPIs without one-sided access.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_BYTES (1 << 20)
#define NUMBERS 5000
#define MANY 24
#define BLOCK 3000
#define ADDITIONS 50

static const int sizes[] = { 0, 1, 1000, 4096, 65536, SIZE_MAX_BYTES };

static int rank, ranks;
static long held;
static unsigned char out[SIZE_MAX_BYTES], in[SIZE_MAX_BYTES];

static unsigned char pattern(int from, int kind, int at)
{
    return from * 101 + kind * 31 + at * 7 + (at >> 8) * 13;
}

static void fill(unsigned char *data, int size, int kind)
{
    for (int at = 0; at < size; at++) {
        data[at] = pattern(rank, kind, at);
    }
}

static void expect(int holds, const char *what, int from)
{
    if (!holds) {
        fprintf(stderr, "%d: wrong data of %d: %s\n", rank, from, what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    held++;
}

static void compare(const unsigned char *data, int size, int from, int kind,
                    const char *what)
{
    int at = 0;

    while (at < size && data[at] == pattern(from, kind, at)) {
        at++;
    }
    expect(at == size, what, from);
}

static void ring(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

    for (int i = 0; i < (int)(sizeof(sizes) / sizeof(*sizes)); i++) {
        MPI_Status status;
        int size;

        fill(out, sizes[i], i);
        memset(in, 0, sizes[i]);
        MPI_Sendrecv(out, sizes[i], MPI_BYTE, next, i, in, SIZE_MAX_BYTES,
                     MPI_BYTE, before, i, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &size);
        expect(size == sizes[i], "length round the ring", before);
        compare(in, sizes[i], before, i, "round the ring");
    }
}

/* All under way together, the last sent first. */
static void many_at_once(void)
{
    int peer = ranks - 1 - rank, size = SIZE_MAX_BYTES / MANY;
    MPI_Request wait[2 * MANY];

    for (int i = 0; i < MANY; i++) {
        MPI_Irecv(in + i * size, size, MPI_BYTE, peer, i, MPI_COMM_WORLD,
                  &wait[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        fill(out + i * size, (i + 1) * size / MANY, i);
        MPI_Isend(out + i * size, (i + 1) * size / MANY, MPI_BYTE, peer, i,
                  MPI_COMM_WORLD, &wait[MANY + i]);
    }
    MPI_Waitall(2 * MANY, wait, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        compare(in + i * size, (i + 1) * size / MANY, peer, i, "many at once");
    }
}

static void sums(void)
{
    static int64_t mine[NUMBERS], all[NUMBERS];

    for (int i = 0; i < NUMBERS; i++) {
        mine[i] = (int64_t)i * i + rank;
    }
    MPI_Allreduce(mine, all, NUMBERS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < NUMBERS; i++) {
        expect(all[i] == (int64_t)i * i * ranks + ranks * (ranks - 1) / 2,
               "sum of all", rank);
    }
}

static void all_to_all(void)
{
    for (int to = 0; to < ranks; to++) {
        fill(out + to * BLOCK, BLOCK, to);
    }
    MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++) {
        compare(in + from * BLOCK, BLOCK, from, rank, "to all");
    }
    for (int from = 0; from < ranks; from++) {
        fill(in, SIZE_MAX_BYTES, 7);
        MPI_Bcast(in, SIZE_MAX_BYTES, MPI_BYTE, from, MPI_COMM_WORLD);
        compare(in, SIZE_MAX_BYTES, from, 7, "one to all");
    }
}

/* The window: room for what a peer writes, and a number all add to. */
static void memory(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int64_t one = 1, old, last = -1, *counter;
    unsigned char *base;
    MPI_Win window;

    MPI_Win_allocate(SIZE_MAX_BYTES + sizeof(*counter), 1, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &base, &window);
    counter = (void *)(base + SIZE_MAX_BYTES);
    MPI_Win_fence(0, window);
    memset(base, 0, SIZE_MAX_BYTES);
    *counter = 0;
    fill(out, SIZE_MAX_BYTES, 9);
    MPI_Win_fence(0, window);
    MPI_Put(out, SIZE_MAX_BYTES, MPI_BYTE, next, 0, SIZE_MAX_BYTES, MPI_BYTE,
            window);
    MPI_Win_fence(0, window);
    compare(base, SIZE_MAX_BYTES, before, 9, "written");
    memset(in, 0, SIZE_MAX_BYTES);
    MPI_Win_fence(0, window);
    MPI_Get(in, SIZE_MAX_BYTES, MPI_BYTE, next, 0, SIZE_MAX_BYTES, MPI_BYTE,
            window);
    MPI_Win_fence(0, window);
    compare(in, SIZE_MAX_BYTES, rank, 9, "read");
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ADDITIONS; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, SIZE_MAX_BYTES, MPI_SUM,
                         window);
        MPI_Win_flush(0, window);
        expect(old > last && old < (int64_t)ADDITIONS * ranks, "count", 0);
        last = old;
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    expect(rank || *counter == (int64_t)ADDITIONS * ranks, "count", 0);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

/* How many differ. */
static int machines(void)
{
    char own[MPI_MAX_PROCESSOR_NAME] = "", *names;
    int length, count = 0;

    names = calloc(ranks, sizeof(own));
    MPI_Get_processor_name(own, &length);
    MPI_Allgather(own, sizeof(own), MPI_CHAR, names, sizeof(own), MPI_CHAR,
                  MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        int known = 0;

        for (int j = 0; j < i; j++) {
            known |= !strcmp(names + i * sizeof(own), names + j * sizeof(own));
        }
        count += !known;
    }
    free(names);
    return count;
}

int main(int argc, char **argv)
{
    long sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ring();
    many_at_once();
    sums();
    all_to_all();
    if (argc < 2 || strcmp(argv[1], "-m")) {
        memory();
    }
    MPI_Reduce(&held, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    int count = machines();

    if (!rank) {
        printf("%ld comparisons held, %d processes on %d machines\n", sum,
               ranks, count);
    }
    MPI_Finalize();
    return 0;
}
