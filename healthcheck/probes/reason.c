/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/reason.h"

#include <errno.h>

const char *reason_connect(int error, bool *own_fault) {
  switch (error) {
  case ECONNREFUSED:
    return "connect refused";
  case ECONNRESET:
    return "connection reset in connect";
  case EHOSTUNREACH:
    return "no route to host";
  case ENETUNREACH:
    return "network unreachable";
  case ETIMEDOUT:
    return "no answer to connect";
  case EPROTO:
  case ENOPROTOOPT:
    return "connect refused by the network";
  case EACCES:
  case EPERM:
    return "connect forbidden by this machine (firewall)";
  case EAFNOSUPPORT:
    *own_fault = true;
    return "this machine lacks the address family";
  case EMFILE:
  case ENFILE:
    *own_fault = true;
    return "this machine has no descriptors left";
  case EADDRNOTAVAIL:
  case EADDRINUSE:
    *own_fault = true;
    return "this machine has no address or port left to connect from";
  case ENOBUFS:
  case ENOMEM:
    *own_fault = true;
    return "this machine has no memory left";
  default:
    return "connect failed";
  }
}

const char *reason_broken(int error) {
  switch (error) {
  case ECONNRESET:
  case EPIPE:
    return "connection reset";
  case EHOSTUNREACH:
  case ENETUNREACH:
    return "host became unreachable";
  case ETIMEDOUT:
    return "no answer any more";
  default:
    return "connection broke";
  }
}
