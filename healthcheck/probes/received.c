/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/received.h"

#include <linux/tcp.h> /* glibc's struct tcp_info ends before the counter, and excludes this one */
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

uint64_t received_octets(int fd) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
    return 0;
  return info.tcpi_bytes_received;
}
