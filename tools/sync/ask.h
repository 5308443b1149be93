/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a given name server, as a resolver would ask them: what `sync verify` and
 * `sync migrate` see of a provider is what its users see.
 *
 * Messages are made and read by ldns; many may be under way at once.  UDP first, TCP where the
 * answer is truncated (RFC 7766 section 5), no recursion desired.  Answers are hostile: one that
 * does not fit the question (ID, question, source) is not heard, one that is no DNS message counts
 * as no answer.  Functions block and belong to one thread.
 */
#ifndef SLUICE_TOOLS_SYNC_ASK_H
#define SLUICE_TOOLS_SYNC_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ASK_TEXT = 256, ASK_TIMEOUT_MS = 2000, ASK_TRIES = 3 };

#define ASK_MEMORY "out of memory" /* `why` without memory */

/* One address of a name server. */
struct ask_server {
  struct sockaddr_storage address;
  char text[ASK_TEXT]; /* as given: "192.0.2.53", "192.0.2.53@5300"; of a host name with the
                        * address: "ns1.example.net. (192.0.2.53)" */
};

/* "ADDRESS[@PORT]", or a host name (with @PORT if need be), which is resolved by the system: all
 * its addresses of the families that this machine has.  *out is malloc'd.  False with a reason in
 * `why` (ASK_TEXT octets). */
bool ask_resolve(const char *text, struct ask_server **out, size_t *count, char *why);

/* A question.  `family` AF_UNSPEC: without client subnet (RFC 7871). */
struct ask_question {
  const char *name; /* absolute */
  uint16_t type;
  int family; /* of `subnet`: AF_INET, AF_INET6 */
  uint8_t subnet[16];
  uint8_t bits;
};

struct ask_answer {
  bool answered;
  char why[ASK_TEXT]; /* not answered: why */
  uint8_t rcode;
  bool authoritative;
  /* Answer section (authority of a referral: where nothing is in the answer section and it is not
   * authoritative): [{"name", "type", "ttl", "value"}], values as provider_rdata_text(). */
  json_t *records;
  bool referral;
  bool subnet;   /* it has the option of RFC 7871 */
  uint8_t scope; /* of that */
};

void ask_answer_close(struct ask_answer *answer);

/* Asks one server once (with its repetitions); `timeout_ms` is of one try, 0: ASK_TIMEOUT_MS.  A
 * server that cannot be reached is not answered, with the reason.  False only without memory. */
bool ask_one(const struct ask_server *server, const struct ask_question *question, int timeout_ms,
             struct ask_answer *out);

/* Asks one server `count` questions, `window` (at most 1024) of them under way at once; `heard`
 * gets each answer with the index of its question, in any order, and takes nothing over.  False
 * without memory or if the server is not there at all (`why`): it cannot be reached, or none of the
 * first `window` questions got an answer; the questions after them are not asked then, nor heard
 * of. */
bool ask_many(const struct ask_server *server, const struct ask_question *questions, size_t count,
              size_t window, int timeout_ms,
              void (*heard)(void *arg, size_t index, const struct ask_answer *answer), void *arg,
              char *why);

#endif
