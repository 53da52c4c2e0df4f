/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vfio_driver PCI-ADDRESS GROUP: the data sheet's driver
 * (firmware-spec/driver.c) as a program, on a card of vfio-pci. The card is
 * behind an IOMMU and can only reach mapped memory. This program removes
 * mappings. Objects that use that memory must fail, and all others must work.
 * Prints TAP.
 */
#include "driver.c"

#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report.h"

#define DMA_START 0x1000000
#define PAGE	  4096 /* an EQ's and a send queue's ring with its record */
#define RIGHTS	  (VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE)
#define WAITS_MAX 10000 /* of a millisecond each */
/* Longer than the pause before the device retries to write an event. */
#define RETRY_US 300000

static struct {
    int container, device;
    volatile __u8 *bar0, *bar2;
    __u64 dma_end;
    int waited;
} card;

__u32 bar0_read(__u32 offset)
{
    return *(volatile __u32 *)(card.bar0 + offset);
}

void bar0_write(__u32 offset, __u32 value)
{
    *(volatile __u32 *)(card.bar0 + offset) = value;
}

void bar2_write(__u32 offset, __u64 word)
{
    *(volatile __u64 *)(card.bar2 + offset) = word;
}

void give_up(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

void relax(void)
{
    if (++card.waited > WAITS_MAX)
        give_up("the card does not answer");
    usleep(1000);
}

/* ---- the IOMMU ----------------------------------------------------------- */

static void allow(void *memory, __u64 address, __u32 size)
{
    struct vfio_iommu_type1_dma_map map = {
        .argsz = sizeof(map),
        .flags = RIGHTS,
        .vaddr = (__u64)memory,
        .iova = address,
        .size = size,
    };

    if (ioctl(card.container, VFIO_IOMMU_MAP_DMA, &map))
        give_up("VFIO_IOMMU_MAP_DMA");
}

static void forbid(__u64 address, __u32 size)
{
    struct vfio_iommu_type1_dma_unmap unmap = {
        .argsz = sizeof(unmap),
        .iova = address,
        .size = size,
    };

    if (ioctl(card.container, VFIO_IOMMU_UNMAP_DMA, &unmap) ||
        unmap.size != size)
        give_up("VFIO_IOMMU_UNMAP_DMA");
}

static __u32 whole_pages(__u32 size)
{
    return (size + 4095) & ~4095u;
}

void *dma_alloc(__u32 size, __u64 *address)
{
    void *memory = mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        give_up("mmap");
    *address = card.dma_end;
    card.dma_end += whole_pages(size);
    allow(memory, *address, whole_pages(size));
    return memory;
}

/* ---- the card ------------------------------------------------------------ */

static volatile __u8 *map_bar(int number)
{
    struct vfio_region_info info = { .argsz = sizeof(info),
                                     .index = number };
    void *bar;

    if (ioctl(card.device, VFIO_DEVICE_GET_REGION_INFO, &info))
        give_up("VFIO_DEVICE_GET_REGION_INFO");
    bar = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED,
               card.device, info.offset);
    if (bar == MAP_FAILED)
        give_up("a BAR cannot be mapped");
    return bar;
}

/* Memory space and bus mastering. */
static void turn_on(void)
{
    struct vfio_region_info info = {
        .argsz = sizeof(info),
        .index = VFIO_PCI_CONFIG_REGION_INDEX,
    };
    __u16 command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;

    if (ioctl(card.device, VFIO_DEVICE_GET_REGION_INFO, &info) ||
        pwrite(card.device, &command, 2, info.offset + PCI_COMMAND) != 2)
        give_up("configuration space");
}

static void open_card(const char *address, const char *group)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/dev/vfio/%s", group);
    card.container = open("/dev/vfio/vfio", O_RDWR);
    fd = open(path, O_RDWR);
    if (card.container < 0 || fd < 0)
        give_up("no /dev/vfio");
    if (ioctl(fd, VFIO_GROUP_SET_CONTAINER, &card.container) ||
        ioctl(card.container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
        give_up("the group cannot be used");
    card.device = ioctl(fd, VFIO_GROUP_GET_DEVICE_FD, address);
    if (card.device < 0)
        give_up("VFIO_GROUP_GET_DEVICE_FD");
    card.bar0 = map_bar(FAKERNIC_BAR_REGS);
    card.bar2 = map_bar(FAKERNIC_BAR_UAR);
    card.dma_end = DMA_START;
    turn_on();
}

static void read_mac(__u8 *mac)
{
    __u32 low = bar0_read(FAKERNIC_REG_MAC_LO);
    __u32 high = bar0_read(FAKERNIC_REG_MAC_HI);

    memcpy(mac, &low, 4);
    memcpy(mac + 4, &high, 2);
}

/* ---- unmapped memory ----------------------------------------------------- */

static struct queue events; /* the asynchronous ones */

static void create_async_eq(void)
{
    struct fakernic_create_eq_req req = { .log_depth = LOG_DEPTH,
                                          .async = 1 };

    req.pages = make(&events, 4);
    events.id = command(FAKERNIC_CMD_CREATE_EQ, &req, sizeof(req));
}

static struct queue create_ud(void)
{
    const __u32 masks[] = { ATTR(PKEY_INDEX) | ATTR(PORT) | ATTR(QKEY), 0,
                            ATTR(SQ_PSN) };
    struct fakernic_modify_qp_req modify = { .attr.port = 1,
                                             .attr.qkey = 0x1234 };
    struct fakernic_create_qp_req qp = { .type = FAKERNIC_QP_UD,
                                         .rq_log_depth = FAKERNIC_QUEUE_NONE,
                                         .recv_cqn = cq.id };

    return create_qp(&qp, &modify, masks);
}

static void post(struct queue *sq, const void *wqe)
{
    memcpy(entry(sq), wqe, FAKERNIC_SQ_BB_SIZE);
    sq->index++;
    publish(sq);
    ring(FAKERNIC_DOORBELL_SQ, sq, 0);
}

static void post_nop(struct queue *sq)
{
    const struct fakernic_sq_hdr wqe[4] = {
		{FAKERNIC_SQ_NOP, FAKERNIC_SQ_SIGNALED, .bb_count = 1}};

    post(sq, wqe);
}

static bool completes(struct queue *sq)
{
    struct fakernic_cqe *cqe;
    bool done;

    post_nop(sq);
    cqe = take(&cq, offsetof(struct fakernic_cqe, owner));
    done = cqe->status == FAKERNIC_WC_SUCCESS && cqe->qpn == sq->id;
    publish(&cq);
    return done;
}

static struct queue create_rc(const __u8 *mac)
{
    const __u32 masks[] = {
        ATTR(PKEY_INDEX) | ATTR(PORT) | ATTR(ACCESS_FLAGS),
        ATTR(AV) | ATTR(PATH_MTU) | ATTR(DEST_QPN) | ATTR(RQ_PSN) |
            ATTR(MAX_DEST_RD_ATOMIC) | ATTR(MIN_RNR_TIMER),
        ATTR(TIMEOUT) | ATTR(RETRY_CNT) | ATTR(RNR_RETRY) |
            ATTR(SQ_PSN) | ATTR(MAX_RD_ATOMIC),
    };
    struct fakernic_modify_qp_req modify = {
        .attr = { .port = 1, .path_mtu = FAKERNIC_MTU_1024, .timeout = 14 },
    };
    struct fakernic_create_qp_req qp = { .type = FAKERNIC_QP_RC,
                                         .rq_log_depth = FAKERNIC_QUEUE_NONE,
                                         .recv_cqn = cq.id };

    /* GID 0 is what driver_write() has set. */
    memcpy(modify.attr.av.dmac, mac, 6);
    memcpy(modify.attr.av.dgid + 10, "\xff\xff\x0a\0\0\1", 6);
    return create_qp(&qp, &modify, masks);
}

/* The send buffer of one QP is unmapped: that QP fails. */
static void forbid_data(struct queue *other, const __u8 *mac)
{
    struct queue sq = create_rc(mac);
    struct fakernic_create_mr_req mr = {
        .length = PAGE,
        .pages = { .page_count = 1, .page_shift = 12 },
        .pdn = pd,
        .access = FAKERNIC_ACCESS_LOCAL_WRITE,
        .type = FAKERNIC_MR_MEMORY,
    };
    struct {
        struct fakernic_sq_hdr hdr;
        struct fakernic_sq_rdma rdma;
        struct fakernic_sge sge[2];
    } wqe = { .hdr = { .opcode = FAKERNIC_SQ_RDMA_WRITE,
                       .flags = FAKERNIC_SQ_SIGNALED,
                       .sge_count = 1,
                       .bb_count = 1 } };
    struct fakernic_cqe *cqe;

    dma_alloc(PAGE, &mr.iova);
    mr.pages.address = mr.iova;
    wqe.sge[0].address = mr.iova;
    wqe.sge[0].length = 8;
    wqe.sge[0].lkey = command(FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    forbid(mr.iova, PAGE);
    post(&sq, &wqe);
    cqe = take(&cq, offsetof(struct fakernic_cqe, owner));
    report(cqe->qpn == sq.id && cqe->status == FAKERNIC_WC_LOC_PROT_ERR &&
               cqe->vendor_err == FAKERNIC_VENDOR_KEY_DMA,
           "a QP with unmapped data gets an error");
    report(completes(other), "and no other");
}

/* An unmapped ring ends its QP, and an event reports it. */
static void forbid_ring(struct queue *other)
{
    struct queue sq = create_ud();
    struct fakernic_eqe *eqe;

    forbid(sq.address, PAGE);
    post_nop(&sq);
    do /* the port and connections have events, too */
        eqe = take(&events, offsetof(struct fakernic_eqe, owner));
    while (eqe->type != FAKERNIC_EVENT_QP_FATAL);
    report(eqe->id == sq.id && eqe->data == FAKERNIC_VENDOR_SQ_DMA,
           "a QP whose ring is forbidden is in error");
    report(completes(other), "and another one works");
}

/* An event that cannot be written waits until it can. */
static void forbid_events(struct queue *sq)
{
    struct fakernic_eqe *eqe = entry(&eq);
    __u8 owner = eqe->owner;

    forbid(eq.address, PAGE);
    ring(FAKERNIC_DOORBELL_CQ_ARM, &cq, 0);
    report(completes(sq), "a CQ works while its EQ is unmapped");
    usleep(RETRY_US);
    report(((volatile struct fakernic_eqe *)eqe)->owner == owner,
           "its event is not written");
    forbid_ring(sq);
    allow(eq.ring, eq.address, PAGE);
    eqe = take(&eq, offsetof(struct fakernic_eqe, owner));
    report(eqe->type == FAKERNIC_EVENT_COMPLETION && eqe->id == cq.id,
           "it comes when the memory is there again");
}

int main(int argc, char **argv)
{
    struct queue sq;
    __u8 mac[6];

    if (argc != 3) {
        fprintf(stderr, "usage: vfio_driver PCI-ADDRESS GROUP\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_card(argv[1], argv[2]);
    driver();
    driver_nop();
    report(true, "the driver of the data sheet works");
    read_mac(mac);
    driver_write(mac);
    report(true, "its RDMA WRITE, too");
    create_async_eq();
    sq = create_ud();
    report(completes(&sq), "a QP");
    forbid_data(&sq, mac);
    forbid_ring(&sq);
    forbid_events(&sq);
    report(completes(&sq), "objects with mapped memory work");
    return end_report();
}
