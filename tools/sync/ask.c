/* SPDX-License-Identifier: Apache-2.0 */
/* Name servers by address or name, and single questions. */
#include "tools/sync/ask.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_TEXT = 6, ADDRESSES_MAX = 32 };

/* ---- name servers --------------------------------------------------------------------------- */

static bool fail(char *why, const char *format, const char *text) {
  snprintf(why, ASK_TEXT, format, text);
  return false;
}

/* "HOST@PORT" in two; the port is 53 if there is none. */
static bool split(const char *text, char *host, size_t size, char *port, char *why) {
  const char *at = strrchr(text, '@');
  size_t len = at ? (size_t)(at - text) : strlen(text);
  if (len == 0 || len >= size)
    return fail(why, "%.100s is no address of a name server (ADDRESS[@PORT] or a host name)", text);
  memcpy(host, text, len);
  host[len] = '\0';
  snprintf(port, PORT_TEXT, "53");
  if (!at)
    return true;
  char *end;
  unsigned long number = at[1] >= '0' && at[1] <= '9' ? strtoul(at + 1, &end, 10) : 0;
  if (number == 0 || number > 65535 || *end != '\0')
    return fail(why, "%.100s: the port is not a number from 1 to 65535", text);
  snprintf(port, PORT_TEXT, "%lu", number);
  return true;
}

static bool add(struct ask_server *out, const struct addrinfo *info, const char *text,
                const char *host) {
  char shown[NI_MAXHOST];
  if (info->ai_addrlen > sizeof out->address)
    return false;
  memcpy(&out->address, info->ai_addr, info->ai_addrlen);
  if (getnameinfo(info->ai_addr, info->ai_addrlen, shown, sizeof shown, NULL, 0, NI_NUMERICHOST) ||
      strcmp(shown, host) == 0)
    snprintf(out->text, ASK_TEXT, "%.200s", text);
  else
    snprintf(out->text, ASK_TEXT, "%.180s (%.64s)", text, shown);
  return true;
}

bool ask_resolve(const char *text, struct ask_server **out, size_t *count, char *why) {
  char host[ASK_TEXT];
  char port[PORT_TEXT];
  struct addrinfo *list = NULL;
  struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
  *out = NULL;
  *count = 0;
  if (!split(text, host, sizeof host, port, why))
    return false;
  bool numeric = getaddrinfo(host, port, &hints, &list) == 0;
  hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG; /* no IPv6 addresses without IPv6 here */
  int error = numeric ? 0 : getaddrinfo(host, port, &hints, &list);
  hints.ai_flags = AI_NUMERICSERV; /* loopback addresses do not count for the other */
  if (error != 0)
    error = getaddrinfo(host, port, &hints, &list);
  if (error != 0) {
    snprintf(why, ASK_TEXT, "%.100s: the system finds no address of this host (%.100s)", text,
             gai_strerror(error));
    return false;
  }
  *out = calloc(ADDRESSES_MAX, sizeof **out);
  for (const struct addrinfo *i = list; *out && i && *count < ADDRESSES_MAX; i = i->ai_next)
    *count += add(*out + *count, i, text, host);
  freeaddrinfo(list);
  if (*count > 0)
    return true;
  free(*out);
  *out = NULL;
  return fail(why, "%.100s: out of memory, or no address that can be asked", text);
}

/* ---- one question --------------------------------------------------------------------------- */

static void keep(void *arg, size_t index, const struct ask_answer *answer) {
  struct ask_answer *out = arg;
  (void)index;
  *out = *answer;
  json_incref(out->records);
}

bool ask_one(const struct ask_server *server, const struct ask_question *question, int timeout_ms,
             struct ask_answer *out) {
  char why[ASK_TEXT] = "";
  *out = (struct ask_answer){0};
  if (ask_many(server, question, 1, 1, timeout_ms, keep, out, why) || out->why[0] != '\0')
    return true;
  snprintf(out->why, sizeof out->why, "%s", why);
  return strcmp(why, ASK_MEMORY) != 0;
}
