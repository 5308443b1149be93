/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify_send.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "server/answer.h"
#include "server/transfer_policy.h"
#include "server/wire.h"

enum { SOCKETS = 4, RECEIVE_SIZE = 4096, IPV4_LOOPBACK = 127 };

/* One socket for each kind of target: IPv4 or IPv6, on this host or elsewhere. */
struct sender {
  uv_udp_t handle;
  bool open;
  bool failed;
};

struct notify_send {
  uv_loop_t *loop;
  uv_timer_t timer;
  struct sender senders[SOCKETS];
  unsigned handles; /* not closed yet */
  struct notify_out *out;
  const struct address *listen;
  size_t listen_count;
  const struct tsig_keys *keys;
  char buffer[RECEIVE_SIZE];
};

/* ---- sockets ----------------------------------------------------------------------------------
 */

static bool is_loopback(const union address_socket *s) {
  if (s->sa.sa_family == AF_INET)
    return ((const uint8_t *)&s->v4.sin_addr)[0] == IPV4_LOOPBACK;
  return IN6_IS_ADDR_LOOPBACK(&s->v6.sin6_addr);
}

static unsigned kind_of(const union address_socket *s) {
  return (s->sa.sa_family == AF_INET6 ? 2U : 0U) + (is_loopback(s) ? 1U : 0U);
}

static union address_socket unspecified(unsigned kind) {
  union address_socket any;
  memset(&any, 0, sizeof any);
  any.sa.sa_family = kind >= 2 ? AF_INET6 : AF_INET;
  return any;
}

/* The address that messages to this kind of target leave from, with port 0. */
static union address_socket source_of(const struct notify_send *send, unsigned kind) {
  union address_socket source = unspecified(kind);
  for (size_t i = 0; i < send->listen_count; i++) {
    const struct address *a = &send->listen[i];
    if (address_is_wildcard(a) || kind_of(&a->socket) != kind)
      continue;
    source = a->socket;
    break;
  }
  if (kind >= 2)
    source.v6.sin6_port = 0;
  else
    source.v4.sin_port = 0;
  return source;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct notify_send *send = handle->data;
  (void)suggested;
  *buffer = uv_buf_init(send->buffer, sizeof send->buffer);
}

static void log_end(const struct notify_out_end *end) {
  static struct log_limit limit;
  if (end->reason != NULL)
    log_limited(&limit, LOG_LEVEL_WARNING, "zone %s: NOTIFY to %s failed: %s", end->zone,
                end->target, end->reason);
}

static void on_receive(uv_udp_t *handle, ssize_t n, const uv_buf_t *buffer,
                       const struct sockaddr *from, unsigned flags) {
  struct notify_send *send = handle->data;
  struct notify_out_end end;
  union address_socket peer;
  if (n <= 0 || from == NULL || (flags & UV_UDP_PARTIAL) != 0)
    return;
  memset(&peer, 0, sizeof peer);
  memcpy(&peer, from, from->sa_family == AF_INET ? sizeof peer.v4 : sizeof peer.v6);
  if (notify_out_reply(send->out, &peer, (const uint8_t *)buffer->base, (size_t)n,
                       (uint64_t)time(NULL), &end))
    log_end(&end);
}

static bool open_sender(struct notify_send *send, unsigned kind) {
  static struct log_limit limit;
  struct sender *sender = &send->senders[kind];
  if (sender->open || sender->failed)
    return sender->open;
  union address_socket source = source_of(send, kind);
  int error = uv_udp_init(send->loop, &sender->handle);
  if (error == 0) {
    sender->handle.data = send;
    sender->open = true; /* to be closed from now on */
    send->handles++;
    error = uv_udp_bind(&sender->handle, &source.sa, 0);
  }
  if (error == UV_EADDRNOTAVAIL) { /* the address is gone for now */
    source = unspecified(kind);
    error = uv_udp_bind(&sender->handle, &source.sa, 0);
  }
  if (error == 0)
    error = uv_udp_recv_start(&sender->handle, on_alloc, on_receive);
  if (error == 0)
    return true;
  log_limited(&limit, LOG_LEVEL_ERROR, "cannot open a socket for NOTIFY: %s", uv_strerror(error));
  sender->failed = !sender->open;
  return sender->open;
}

/* A message that cannot be sent counts as lost: it is tried again like one. */
static void send_message(struct notify_send *send, struct notify_out_message *message) {
  unsigned kind = kind_of(&message->target->socket);
  if (!open_sender(send, kind))
    return;
  uv_buf_t buffer = uv_buf_init((char *)message->octets, (unsigned)message->length);
  uv_udp_try_send(&send->senders[kind].handle, &buffer, 1, &message->target->socket.sa);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void run(struct notify_send *send);

static void on_timer(uv_timer_t *timer) {
  run(timer->data);
}

static void run(struct notify_send *send) {
  struct notify_out_message message;
  struct notify_out_end end;
  enum notify_out_event event;
  uint64_t now = uv_now(send->loop);
  while ((event = notify_out_next(send->out, now, (uint64_t)time(NULL), &message, &end)) !=
         NOTIFY_OUT_NOTHING) {
    if (event == NOTIFY_OUT_SEND)
      send_message(send, &message);
    else
      log_end(&end);
  }
  uint64_t wait = notify_out_wait(send->out, now);
  if (wait != UINT64_MAX)
    uv_timer_start(&send->timer, on_timer, wait > 0 ? wait : 1, 0);
}

/* ---- zones ------------------------------------------------------------------------------------
 */

static const struct view_zone *find_zone(const struct view *view, const uint8_t *apex) {
  uint64_t hash = name_hash(apex);
  for (uint32_t i = (uint32_t)hash & view->slot_mask; view->slots[i] != 0;
       i = (i + 1) & view->slot_mask) {
    const struct view_zone *zone = &view->zones[view->slots[i] - 1];
    if (view->zone_hashes[view->slots[i] - 1] == hash &&
        name_equal(zone->image->header->apex, apex))
      return zone;
  }
  return NULL;
}

/* The SOA record as it stands in a message whose question is the apex; NULL if that is longer. */
static const uint8_t *soa_of(const struct image *image, size_t *length) {
  const struct image_node *apex = image_node_at(image, image->header->apex_node);
  const struct image_entry *entry = answer_find_entry(apex, TYPE_SOA);
  *length = 0;
  if (entry == NULL || entry->type != TYPE_SOA || (entry->flags & ENTRY_EXTRA) != 0)
    return NULL;
  *length = entry->length;
  return image_entry_body(apex, entry);
}

static void tell(struct notify_send *send, const struct image *image,
                 const struct transfer_policy *policy) {
  static struct log_limit limit;
  const uint8_t *apex = image->header->apex;
  const struct tsig_key *key = policy->has_key ? tsig_keys_find(send->keys, policy->key) : NULL;
  size_t soa_len;
  const uint8_t *soa = soa_of(image, &soa_len);
  char name[NAME_MAX_TEXT];
  if (policy->has_key && key == NULL) {
    log_limited(&limit, LOG_LEVEL_WARNING,
                "zone %s: nobody is notified, since its key is not among `keys:`",
                name_to_text(name, apex));
    return;
  }
  for (size_t i = 0; i < policy->notify_count; i++)
    if (!notify_out_add(send->out, apex, soa, soa_len, &policy->notify[i], key, uv_now(send->loop)))
      log_limited(&limit, LOG_LEVEL_ERROR, "zone %s: cannot notify: out of memory",
                  name_to_text(name, apex));
}

void notify_send_changes(struct notify_send *send, const struct served *now,
                         const struct served *before) {
  const struct view *view = &now->view;
  for (uint32_t i = 0; view->transfers != NULL && i < view->zone_count; i++) {
    const struct image *image = view->zones[i].image;
    const struct transfer_policy *policy = view->transfers[i].policy;
    if (policy == NULL || policy->notify_count == 0 || view->zones[i].state != VIEW_ZONE_SERVED)
      continue;
    const struct view_zone *old =
        before != NULL ? find_zone(&before->view, image->header->apex) : NULL;
    if (old == NULL || old->state != VIEW_ZONE_SERVED ||
        old->image->header->serial != image->header->serial)
      tell(send, image, policy);
  }
  for (uint32_t i = 0; before != NULL && i < before->view.zone_count; i++) {
    const uint8_t *apex = before->view.zones[i].image->header->apex;
    if (find_zone(view, apex) == NULL)
      notify_out_forget(send->out, apex);
  }
  run(send);
}

/* ---- open and close ---------------------------------------------------------------------------
 */

struct notify_send *notify_send_open(uv_loop_t *loop, const struct address *listen,
                                     size_t listen_count, const struct tsig_keys *keys) {
  struct rng rng;
  struct notify_send *send = calloc(1, sizeof *send);
  if (send == NULL)
    return NULL;
  rng_seed_kernel(&rng);
  send->out = notify_out_new(rng_next(&rng));
  if (send->out == NULL) {
    free(send);
    return NULL;
  }
  send->loop = loop;
  send->listen = listen;
  send->listen_count = listen_count;
  send->keys = keys;
  uv_timer_init(loop, &send->timer);
  send->timer.data = send;
  send->handles = 1;
  return send;
}

const struct notify_out_counters *notify_send_get_counters(const struct notify_send *send) {
  return notify_out_get_counters(send->out);
}

static void on_closed(uv_handle_t *handle) {
  struct notify_send *send = handle->data;
  if (--send->handles > 0)
    return;
  notify_out_free(send->out);
  free(send);
}

void notify_send_close(struct notify_send *send) {
  if (send == NULL)
    return;
  for (unsigned i = 0; i < SOCKETS; i++)
    if (send->senders[i].open)
      uv_close((uv_handle_t *)&send->senders[i].handle, on_closed);
  uv_close((uv_handle_t *)&send->timer, on_closed);
}
