/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix stream sockets that a long-lived program listens on.
 */
#ifndef SLUICE_BASE_UNIX_SOCKET_H
#define SLUICE_BASE_UNIX_SOCKET_H

enum { UNIX_SOCKET_WHY = 512 };

/*
 * A socket bound to `path` (not listening yet), close-on-exec, with `mode` from the first moment
 * on.  The socket that a killed program left behind is replaced; one that is in use, or a file of
 * another kind, is not.  -1 with one line in `why` (UNIX_SOCKET_WHY octets).
 */
int unix_socket_bind(const char *path, unsigned mode, char *why);

#endif
