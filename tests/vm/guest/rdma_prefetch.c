/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_prefetch: prefetches untouched memory, 1 GiB four thousand times in one
 * call of ibv_advise_mr(3), which takes many minutes. Prints when the call
 * begins, and the error that ended it.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "verbs_pair.h"

#define SIZE (1u << 30)
#define TIMES 4000

int main(void)
{
    static struct ibv_sge list[TIMES];
    struct endpoint end;
    struct ibv_mr *mr;
    void *memory;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    memory = mmap(NULL, SIZE, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        die("mmap");
    }
    mr = ibv_reg_mr(end.pd, memory, SIZE,
                    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
    if (!mr) {
        die("a region paged on demand");
    }
    for (unsigned i = 0; i < TIMES; i++) {
        list[i] = (struct ibv_sge) {
            .addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey,
        };
    }
    printf("begins\n");
    printf("ended: %s\n",
           strerror(ibv_advise_mr(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
                                  IBV_ADVISE_MR_FLAG_FLUSH, list, TIMES)));
    return 0;
}
