/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where webhooks may connect to.
 *
 * Pushed configuration names the addresses of webhooks, so they must not become a way into the
 * machine's own network: only public addresses are allowed (RFC 6890 and the IANA registries of
 * special-purpose addresses), and what the machine's settings add (`webhook-allow`).  It is asked
 * for the address that is connected to, after all resolving, whatever the name was.  IPv6 forms
 * that stand for an IPv4 address (mapped, compatible, NAT64, 6to4) are judged as that one.
 *
 * Pure; any thread.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_ALLOWED_H
#define SLUICE_HEALTHCHECK_ALERTS_ALLOWED_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { ALLOWED_WHY = 256 };

struct allowed;

/* From a list of networks or addresses ("127.0.0.0/8", "2001:db8::1"), or NULL for none; NULL with
 * one line in `why`.  Freed by allowed_free(). */
struct allowed *allowed_read(const json_t *list, char *why);
void allowed_free(struct allowed *allowed);

/* True if a webhook may connect to the address; other families than IPv4 and IPv6 are refused. */
bool allowed_address(const struct allowed *allowed, const struct sockaddr *address);

#endif
