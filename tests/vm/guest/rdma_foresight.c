/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_foresight: wants memory to be paged in that nobody has touched, a GiB,
 * four thousand times by one call (ibv_advise_mr(3)), and waits for it. That
 * takes many minutes; it says when it begins, and with which error it ended.
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
