// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A line of text across RDMA.
 *
 *   rdma_line [-6]                 the server: shows its memory, then only polls
 *                                  that memory until a line has appeared in it
 *   rdma_line [-6] ADDRESS TEXT    the client: writes TEXT into the server's
 *                                  memory with RDMA WRITE, reads it back with
 *                                  RDMA READ and compares
 *
 * The two exchange addresses over TCP (port 18600); no byte of TEXT goes there.
 */
#include <netdb.h>
#include <sys/socket.h>

#include "rdma_common.h"

#define PORT 18600
#define LINE_SIZE 4096

static int listen_for_peer(bool ipv6)
{
	struct sockaddr_in6 address6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(PORT) };
	struct sockaddr_in address4 = {
		.sin_family = AF_INET, .sin_port = htons(PORT) };
	int one = 1;
	int listener = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	int peer;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, ipv6 ? (void *)&address6 : (void *)&address4,
		 ipv6 ? sizeof(address6) : sizeof(address4)) ||
	    listen(listener, 1))
		DIE("listen on port %d", PORT);
	puts("server: waiting for a client");
	fflush(stdout);
	peer = accept(listener, NULL, NULL);
	if (peer < 0)
		DIE("accept");
	close(listener);
	return peer;
}

static int connect_to(const char *host)
{
	struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM };
	double deadline = seconds_now() + 20;
	char port[8];

	snprintf(port, sizeof(port), "%d", PORT);
	if (getaddrinfo(host, port, &hints, &found))
		DIE("no address for %s", host);
	while (seconds_now() < deadline) {
		int fd = socket(found->ai_family, SOCK_STREAM, 0);

		if (!connect(fd, found->ai_addr, found->ai_addrlen)) {
			freeaddrinfo(found);
			return fd;
		}
		close(fd);
		usleep(100000);
	}
	DIE("connect to %s", host);
}

static void swap(int fd, const struct peer *mine, struct peer *theirs)
{
	size_t got = 0;

	if (write(fd, mine, sizeof(*mine)) != sizeof(*mine))
		DIE("write to the peer");
	while (got < sizeof(*theirs)) {
		ssize_t n = read(fd, (char *)theirs + got,
				 sizeof(*theirs) - got);

		if (n <= 0)
			DIE("read from the peer");
		got += n;
	}
}

static void serve(struct endpoint *e)
{
	volatile char *last = e->buffer + LINE_SIZE - 1;
	double deadline = seconds_now() + 30;

	/* RDMA WRITE places ascending addresses: the last byte comes last. */
	while (!*last)
		if (seconds_now() > deadline) {
			errno = ETIMEDOUT;
			DIE("server: no line appeared in memory");
		}
	printf("server: in my memory, put there by the client: \"%s\"\n",
	       e->buffer);
}

static void run_client(struct endpoint *e, const struct peer *server,
		       const char *text)
{
	struct ibv_wc wc;
	char *back = e->buffer + LINE_SIZE;

	snprintf(e->buffer, LINE_SIZE - 1, "%s", text);
	e->buffer[LINE_SIZE - 1] = 1;
	if (post(e, IBV_WR_RDMA_WRITE, 0, LINE_SIZE, e->mr->lkey,
		 server->address, server->rkey))
		DIE("ibv_post_send of the WRITE");
	wc = wait_completion(e->cq);
	printf("client: RDMA WRITE of %d bytes: %s\n", LINE_SIZE,
	       ibv_wc_status_str(wc.status));
	if (wc.status)
		exit(1);
	if (post(e, IBV_WR_RDMA_READ, LINE_SIZE, LINE_SIZE, e->mr->lkey,
		 server->address, server->rkey))
		DIE("ibv_post_send of the READ");
	wc = wait_completion(e->cq);
	printf("client: RDMA READ of %d bytes: %s: \"%s\"\n", LINE_SIZE,
	       ibv_wc_status_str(wc.status), back);
	if (wc.status || memcmp(e->buffer, back, LINE_SIZE)) {
		fprintf(stderr, "client: read back something else\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	bool ipv6 = argc > 1 && !strcmp(argv[1], "-6");
	int args = argc - ipv6;
	struct endpoint e;
	struct peer mine, theirs;
	char byte;
	int fd;

	if (args != 1 && args != 3) {
		fprintf(stderr, "usage: rdma_line [-6] [ADDRESS TEXT]\n");
		return 2;
	}
	endpoint_open(&e, open_device(), 2 * LINE_SIZE,
		      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		      IBV_ACCESS_REMOTE_READ, ipv6);
	fd = args == 1 ? listen_for_peer(ipv6) : connect_to(argv[1 + ipv6]);
	mine = self_as_peer(&e);
	swap(fd, &mine, &theirs);
	connect_qp(&e, &theirs, 14, 7, 7);
	swap(fd, &mine, &theirs);	/* both are ready to receive */
	if (args == 1) {
		serve(&e);
		/* stay until the client has read it back */
		if (read(fd, &byte, 1) < 0)
			DIE("read from the client");
	} else {
		run_client(&e, &theirs, argv[2 + ipv6]);
	}
	close(fd);
	endpoint_close(&e);
	ibv_close_device(e.context);
	return 0;
}
