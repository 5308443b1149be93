/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a probe costs: a listener in a process of its own on 127.0.0.0/8, and COUNT probes of it
 * with CONCURRENCY at a time.
 *
 *   probe_bench [http|tcp] [COUNT] [CONCURRENCY]
 *   probe_bench listen            the listener alone; prints its port
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "healthcheck/probe.h"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: bench\r\n"
                             "Content-Length: 2\r\nConnection: close\r\n\r\nOK";

/* Answers whatever comes on whatever connection, and closes. */
static void listen_for_ever(int listener) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    struct epoll_event events[256];
    int n = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      char octets[4096];
      if (fd == listener) {
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        event.data.fd = fd;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
      } else if (recv(fd, octets, sizeof octets, 0) > 0) {
        send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
      } else {
        close(fd);
      }
    }
  }
}

static uint16_t start_listener(void) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  socklen_t size = sizeof own;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  /* All of 127.0.0.0/8, and nothing from outside. */
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof "lo") != 0 ||
      bind(fd, (struct sockaddr *)&own, size) != 0 || listen(fd, 4096) != 0 ||
      getsockname(fd, (struct sockaddr *)&own, &size) != 0)
    abort();
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    listen_for_ever(fd);
  }
  close(fd);
  return ntohs(own.sin_port);
}

struct bench {
  struct probe_set *set;
  struct check *check;
  struct probe_target *targets;
  uv_idle_t idle;
  size_t count, started, ended, good, concurrency;
  char reason[PROBE_REASON]; /* of a failure */
};

static void on_done(void *arg, const struct probe_result *result) {
  struct bench *bench = arg;
  bench->ended++;
  bench->good += result->ok;
  if (!result->ok)
    memcpy(bench->reason, result->reason, sizeof bench->reason);
}

static void start_more(uv_idle_t *idle) {
  struct bench *bench = idle->data;
  while (bench->started < bench->count && bench->started - bench->ended < bench->concurrency) {
    struct probe_target *target = &bench->targets[bench->started];
    uint32_t address = htonl(0x7f000001 + (uint32_t)(bench->started % 10000));
    target->family = 4;
    memcpy(target->address, &address, sizeof address);
    bench->started++;
    if (probe_start(bench->set, bench->check, target, on_done, bench) == NULL)
      abort();
  }
  if (bench->ended == bench->count) {
    probe_set_close(bench->set);
    uv_close((uv_handle_t *)idle, NULL);
  }
}

static struct check *make_check(const char *type, uint16_t port) {
  char why[CHECK_WHY];
  json_t *json =
      json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:{s:[[ii]], s:s}}", "type", type, "port",
                (int)port, "path", "/ping", "method", "GET", "interval", 10000, "timeout", 10000,
                "rise", 1, "fall", 1, "expect", "status", 200, 299, "body", "OK");
  struct check *check = check_read(json, why);
  json_decref(json);
  return check;
}

static double seconds(const struct timeval *time) {
  return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "listen") == 0) {
    printf("%u\n", start_listener());
    fflush(stdout);
    pause();
    return 0;
  }
  struct bench bench = {.count = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000,
                        .concurrency = argc > 3 ? strtoul(argv[3], NULL, 10) : 100};
  struct probe_options options = {0};
  char why[PROBE_WHY];
  uv_loop_t *loop = uv_default_loop();
  bench.check = make_check(argc > 1 ? argv[1] : "http", start_listener());
  bench.targets = calloc(bench.count, sizeof *bench.targets);
  bench.set = probe_set_open(loop, &options, why);
  if (bench.check == NULL || bench.targets == NULL || bench.set == NULL)
    abort();
  uint64_t from = uv_hrtime();
  uv_idle_init(loop, &bench.idle);
  bench.idle.data = &bench;
  uv_idle_start(&bench.idle, start_more);
  uv_run(loop, UV_RUN_DEFAULT);
  double wall = (double)(uv_hrtime() - from) / 1e9;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double user = seconds(&usage.ru_utime), kernel = seconds(&usage.ru_stime);
  printf("%zu probes, %zu good%s%s, %.2f s: %.1f us of CPU each (%.1f in user space), %ld KB\n",
         bench.ended, bench.good, bench.reason[0] != '\0' ? ", else " : "", bench.reason, wall,
         (user + kernel) * 1e6 / (double)bench.count, user * 1e6 / (double)bench.count,
         usage.ru_maxrss);
  check_free(bench.check);
  free(bench.targets);
  return bench.good == bench.count ? 0 : 1;
}
