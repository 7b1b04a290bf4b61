/* An HTTP server that answers every request with the same page and keeps when each of them came in.
 *
 *     recorder PORT FILE WORK_NS
 *
 * Before each answer it computes for so many nanoseconds, as a server has something to do.
 *
 * The time is the kernel's, of when the packet with the request's end arrived (SO_TIMESTAMPNS), so how late this
 * program reads is not in it. On SIGTERM it writes a record for each request to FILE: two little-endian 64-bit
 * numbers, the connection's and the nanoseconds. A request must fit into one read, and a connection must wait for the
 * answer before it asks again.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_RECORDS (1 << 24)
#define MOST_EVENTS 256

struct record {
	uint64_t connection;
	uint64_t ns;
};

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static void compute(uint64_t ns)
{
	struct timespec begun, now;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)(now.tv_sec - begun.tv_sec) * 1000000000 + (uint64_t)(now.tv_nsec - begun.tv_nsec) < ns);
}

/* Reads once; returns the bytes read, and when their last packet arrived. */
static ssize_t take(int connection, char *bytes, size_t size, uint64_t *ns)
{
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct iovec part = { bytes, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof control };
	ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); got > 0 && c; c = CMSG_NXTHDR(&message, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec at;
			memcpy(&at, CMSG_DATA(c), sizeof at);
			*ns = (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
		}
	return got;
}

int main(int argc, char **argv)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	const int on = 1;
	if (argc != 4) {
		fprintf(stderr, "usage: recorder PORT FILE WORK_NS\n");
		return 2;
	}
	uint64_t work_ns = strtoull(argv[3], NULL, 10);
	struct record *records = malloc(sizeof *records * MOST_RECORDS);
	size_t count = 0;
	need(records != NULL, "malloc");
	struct sigaction action = { .sa_handler = end };
	sigaction(SIGTERM, &action, NULL);

	int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	/* Connections have it from here: a request may come before accept returns. */
	setsockopt(listener, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	need(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
	need(listen(listener, 4096) == 0, "listen");
	need(epoll_ctl(poll, EPOLL_CTL_ADD, listener,
		       &(struct epoll_event){ .events = EPOLLIN, .data.fd = listener }) == 0, "epoll_ctl");

	while (!ended) {
		struct epoll_event events[MOST_EVENTS];
		int ready = epoll_wait(poll, events, MOST_EVENTS, -1);
		for (int i = 0; i < ready; i++) {
			int fd = events[i].data.fd;
			if (fd == listener) {
				int connection = accept(listener, NULL, NULL);
				if (connection < 0)
					continue;
				setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
				epoll_ctl(poll, EPOLL_CTL_ADD, connection,
					  &(struct epoll_event){ .events = EPOLLIN, .data.fd = connection });
				continue;
			}
			char bytes[4096];
			uint64_t ns = 0;
			ssize_t got = take(fd, bytes, sizeof bytes, &ns);
			if (got <= 0) {
				close(fd);
				continue;
			}
			if (got < 4 || memcmp(bytes + got - 4, "\r\n\r\n", 4) != 0 || ns == 0 || count == MOST_RECORDS) {
				fprintf(stderr, "a request in parts, without a time, or one too many\n");
				return 1;
			}
			records[count++] = (struct record){ (uint64_t)fd, ns };
			compute(work_ns);
			need(send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) > 0, "send");
		}
	}
	FILE *file = fopen(argv[2], "wb");
	need(file != NULL, argv[2]);
	need(fwrite(records, sizeof *records, count, file) == count && fclose(file) == 0, "write");
	return 0;
}
