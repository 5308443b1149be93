/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the primaries, and makes what they send ready to be served. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/utf8.h"
#include "server/notify_word.h"
#include "server/secondary_private.h"
#include "server/wire.h"

enum {
  MAX_ACTIVE = 64, /* zones that are asked for at a time */
  /* Of these from one primary: one that answers as slowly as it may holds up nobody else's. */
  MAX_ACTIVE_AT_ONE = 16,
  CONFIRM_MS = 5000, /* how long a confirmation may stay unwritten */
  LONGEST_SLEEP_MS = 3600000,
};

/* Work on a complete transfer, in a thread of the pool. */
struct save {
  uv_work_t work;
  struct managed *managed;
  struct transfer_in *transfer;
  struct secondary_info info;
  enum secondary_model_result result;
  bool is_signed;
  char primary[ADDRESS_TEXT];
  char why[SECONDARY_MODEL_WHY];
};

static const char *primary_text(const struct managed *m) {
  return m->settings->primaries[m->zone.primary].address.text;
}

static void set_error(struct managed *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void set_error(struct managed *m, const char *format, ...) {
  static struct log_limit limit;
  va_list args;
  va_start(args, format);
  vsnprintf(m->error, sizeof m->error, format, args);
  va_end(args);
  utf8_repair(m->error); /* long paths are cut; JSON must hold them */
  m->owner->counters[SECONDARY_FAILURES]++;
  log_limited(&limit, LOG_LEVEL_WARNING, "secondary %s: %s", m->name, m->error);
}

/* ---- steps ------------------------------------------------------------------------------------
 */

static void ask(struct managed *m, enum secondary_step step, bool tcp);

static void ended(struct managed *m) {
  m->owner->active--;
  m->owner->active_at[m->slot]--;
  secondary_look_at_all(m->owner);
}

static void next_step(struct managed *m, enum secondary_step step) {
  if (step == SECONDARY_IDLE)
    ended(m);
  else
    ask(m, step, false);
}

static void renew(struct managed *m) {
  m->info.refreshed = (int64_t)time(NULL);
  m->unwritten = true;
}

static void confirmed(struct managed *m) {
  m->error[0] = '\0';
  renew(m);
}

static const char *serial_text(enum secondary_serial kind) {
  static const char *const texts[] = {
      [SECONDARY_NEWER] = "newer than",
      [SECONDARY_SAME] = "not newer than",
      [SECONDARY_OLDER] = "older than",
      [SECONDARY_UNRELATED] = "neither newer nor older (RFC 1982) than",
  };
  return texts[kind];
}

static void on_soa(void *arg, struct secondary_reply *reply) {
  struct managed *m = arg;
  int64_t now = secondary_now(m->owner);
  m->client = NULL;
  if (reply->truncated) {
    ask(m, SECONDARY_ASK_SOA, true);
    return;
  }
  if (!reply->ok) {
    set_error(m, "%s: %s", primary_text(m), reply->why);
    next_step(m, secondary_zone_failed(&m->zone, now));
    return;
  }
  uint32_t serial = reply->soa.serial;
  enum secondary_serial kind = secondary_zone_compare(&m->zone, serial);
  if (kind == SECONDARY_SAME)
    confirmed(m);
  else if (kind != SECONDARY_NEWER)
    set_error(m, "%s has serial %u, which is %s our %u", primary_text(m), serial, serial_text(kind),
              m->zone.soa.serial);
  enum secondary_step step = secondary_zone_soa(&m->zone, serial, now);
  /* Else the next question, if any, is for another primary. */
  if (step == SECONDARY_ASK_IXFR || step == SECONDARY_ASK_AXFR)
    m->open = reply->open;
  next_step(m, step);
}

/* ---- the answer to a transfer -----------------------------------------------------------------
 */

static void save_free(struct save *save) {
  transfer_in_close(save->transfer);
  free(save->transfer);
  free(save);
}

/* The records that changes apply to; false if they are not there with the right serial. */
static bool open_old(const struct secondary_files *files, const struct transfer_in *transfer,
                     struct records *old) {
  char why[SECONDARY_MODEL_WHY];
  if (!records_open(old, files->records, why))
    return false;
  if (old->header->serial == transfer->have)
    return true;
  records_close(old);
  return false;
}

static void save_work(uv_work_t *work) {
  struct save *save = work->data;
  const struct secondary_files *files = &save->managed->files;
  struct secondary_model model;
  struct records old;
  bool has_old = save->transfer->incremental && open_old(files, save->transfer, &old);
  save->result = secondary_model_make(&model, save->transfer, has_old ? &old : NULL, save->why);
  save->is_signed = model.is_signed;
  if (save->result == SECONDARY_MODEL_OK) {
    save->info.refreshed = (int64_t)time(NULL);
    uv_mutex_lock(&save->managed->files_lock);
    if (!secondary_files_save(files, &model, &save->info, save->why))
      save->result = SECONDARY_MODEL_BAD;
    uv_mutex_unlock(&save->managed->files_lock);
  }
  secondary_model_close(&model);
  if (has_old)
    records_close(&old);
}

static void log_transfer(const struct managed *m, const struct save *save) {
  const struct transfer_in *t = save->transfer;
  enum secondary_serial kind = secondary_zone_compare(&m->zone, save->info.soa.serial);
  if (kind != SECONDARY_NEWER)
    log_warning("secondary %s: serial %u is %s ours, %u, which has expired: it is taken", m->name,
                save->info.soa.serial, serial_text(kind), m->zone.soa.serial);
  log_info("secondary %s: serial %u from %s (%s, %llu messages, %llu octets)", m->name,
           save->info.soa.serial, save->primary, t->incremental ? "changes" : "whole zone",
           (unsigned long long)t->messages, (unsigned long long)t->octets);
  if (save->is_signed)
    log_warning("secondary %s: the zone is signed, but its signatures are not served; resolvers "
                "that validate will reject the answers if the parent has DS records",
                m->name);
}

static void save_done(uv_work_t *work, int status) {
  struct save *save = work->data;
  struct managed *m = save->managed;
  struct secondary *s = m->owner;
  int64_t now = secondary_now(s);
  (void)status;
  m->save = NULL;
  if (s->stopping) {
    /* What was saved is newer than a confirmation that was to be written. */
    m->unwritten = m->unwritten && save->result != SECONDARY_MODEL_OK;
    save_free(save);
    return;
  }
  enum secondary_step step;
  if (save->result == SECONDARY_MODEL_OK) {
    log_transfer(m, save);
    s->counters[save->transfer->incremental ? SECONDARY_IXFR : SECONDARY_AXFR]++;
    m->info = save->info;
    m->unwritten = false;
    m->error[0] = '\0';
    step = secondary_zone_transferred(&m->zone, &save->info.soa, now);
    m->served = true;
    s->options.changed(s->options.arg);
  } else {
    set_error(m, "%s: %s", save->primary, save->why);
    /* Changes that fit badly, or lead to a bad zone: the whole one may be better. */
    step = save->transfer->incremental ? secondary_zone_fall_back(&m->zone)
                                       : secondary_zone_failed(&m->zone, now);
  }
  save_free(save);
  next_step(m, step);
}

/* Takes the transfer over and works on it elsewhere; false without memory. */
static bool start_save(struct managed *m, struct secondary_reply *reply) {
  struct save *save = calloc(1, sizeof *save);
  if (save == NULL)
    return false;
  save->managed = m;
  save->work.data = save;
  save->transfer = reply->transfer;
  snprintf(save->primary, sizeof save->primary, "%s", primary_text(m));
  atomic_fetch_add(&m->generation, 1);
  if (uv_queue_work(m->owner->options.loop, &save->work, save_work, save_done) != 0) {
    free(save);
    return false;
  }
  reply->transfer = NULL;
  m->save = save;
  return true;
}

/* It told a newer serial, and sends none: machines behind one address that differ, say. */
static void take_not_newer(struct managed *m, uint32_t serial, int64_t now) {
  enum secondary_serial kind = secondary_zone_compare(&m->zone, serial);
  set_error(m, "%s tells serial %u, but sends serial %u, which is %s our %u", primary_text(m),
            m->zone.told, serial, serial_text(kind), m->zone.soa.serial);
  if (kind == SECONDARY_SAME)
    renew(m);
  next_step(m, secondary_zone_not_newer(&m->zone, serial, now));
}

static void on_transfer(void *arg, struct secondary_reply *reply) {
  struct managed *m = arg;
  struct secondary *s = m->owner;
  int64_t now = secondary_now(s);
  m->client = NULL;
  s->counters[SECONDARY_OCTETS] += reply->octets;
  if (reply->closed) {
    ask(m, m->zone.step, false);
    return;
  }
  if (reply->ok && reply->result == TRANSFER_DONE && start_save(m, reply))
    return;
  if (reply->ok && reply->result == TRANSFER_UP_TO_DATE) {
    take_not_newer(m, reply->soa.serial, now);
    return;
  }
  set_error(m, "%s: %s", primary_text(m), reply->ok ? "out of memory" : reply->why);
  next_step(m, reply->ask_for_whole ? secondary_zone_fall_back(&m->zone)
                                    : secondary_zone_failed(&m->zone, now));
}

/* Over the connection that is there, or a new one.  False without memory. */
static bool ask_over(struct managed *m, const struct secondary_question *question) {
  struct secondary *s = m->owner;
  struct secondary_client *open = m->open;
  m->open = NULL;
  if (open != NULL && secondary_client_again(open, question)) {
    m->client = open;
    return true;
  }
  s->counters[SECONDARY_TLS] += question->tls != NULL;
  m->client = secondary_client_ask(s->options.loop, question);
  return m->client != NULL;
}

static struct tls_client *tls_of(const struct secondary *s,
                                 const struct settings_primary *primary) {
  return primary->tls != NULL ? s->tls[primary->tls - s->options.tls->items] : NULL;
}

static void ask(struct managed *m, enum secondary_step step, bool tcp) {
  struct secondary *s = m->owner;
  const struct settings_primary *primary = &m->settings->primaries[m->zone.primary];
  bool soa = step == SECONDARY_ASK_SOA;
  struct secondary_question question = {
      .primary = &primary->address,
      .tls = tls_of(s, primary),
      .apex = m->settings->apex,
      .key = m->key,
      .qtype = soa                          ? TYPE_SOA
               : step == SECONDARY_ASK_IXFR ? TYPE_IXFR
                                            : TYPE_AXFR,
      .tcp = tcp,
      .have = m->zone.soa.serial,
      .limits = {.records = m->settings->max_records,
                 .octets = m->settings->max_octets,
                 .only_newer = secondary_zone_only_newer(&m->zone, secondary_now(s))},
      .done = soa ? on_soa : on_transfer,
      .arg = m,
  };
  s->counters[SECONDARY_SOA_QUERIES] += soa;
  if (ask_over(m, &question))
    return;
  set_error(m, "out of memory");
  next_step(m, secondary_zone_failed(&m->zone, secondary_now(s)));
}

/* ---- time -------------------------------------------------------------------------------------
 */

bool secondary_is_servable(const struct managed *m, int64_t now) {
  enum secondary_state state = secondary_zone_state(&m->zone, now);
  return state == SECONDARY_CURRENT || state == SECONDARY_STALE;
}

static unsigned slot_of(const struct managed *m) {
  struct geo_address address;
  uint64_t words[2] = {0, 0};
  address_to_geo(&m->settings->primaries[m->zone.primary].address.socket, &address);
  memcpy(words, address.octets, address.family == 4 ? 4 : 16);
  uint64_t seed = m->owner->seed;
  uint64_t hash = name_mix(words[0] ^ seed, words[1] ^ address.family ^ ~seed);
  return (unsigned)(hash % SECONDARY_SLOTS);
}

/* Starts a round if it is time, and if not too many are under way. */
static void start_round(struct managed *m, int64_t now) {
  struct secondary *s = m->owner;
  bool due = m->zone.step == SECONDARY_IDLE && m->zone.next_at <= now;
  if (!due || s->active >= MAX_ACTIVE)
    return;
  unsigned slot = slot_of(m);
  if (s->active_at[slot] >= MAX_ACTIVE_AT_ONE)
    return; /* the end of one looks at all again */
  m->slot = slot;
  s->active++;
  s->active_at[slot]++;
  ask(m, secondary_zone_start(&m->zone, now), false);
}

static void on_timer(uv_timer_t *timer) {
  secondary_look_at_all(timer->data);
}

/* True if what the zone is served as must change. */
static bool look_at_state(struct managed *m, int64_t now) {
  bool servable = secondary_is_servable(m, now);
  if (servable == m->served)
    return false;
  m->served = servable;
  if (!servable)
    log_error("secondary %s: expired, no primary has confirmed it for too long: %s", m->name,
              m->error);
  else
    log_notice("secondary %s: served again", m->name);
  return true;
}

/* Starts what is due and sets the timer for what comes next. */
void secondary_look_at_all(struct secondary *s) {
  int64_t now = secondary_now(s);
  int64_t wake = now + LONGEST_SLEEP_MS;
  bool changed = false;
  if (s->stopping || !s->started)
    return;
  for (size_t i = 0; i < s->count; i++) {
    struct managed *m = &s->zones[i];
    changed |= look_at_state(m, now);
    start_round(m, now);
    bool waits = m->zone.step == SECONDARY_IDLE && m->zone.next_at > now;
    if (waits && m->zone.next_at < wake)
      wake = m->zone.next_at;
    if (m->served && secondary_zone_expires_at(&m->zone) < wake)
      wake = secondary_zone_expires_at(&m->zone);
  }
  if (changed)
    s->options.changed(s->options.arg);
  uv_timer_start(&s->timer, on_timer, wake > now ? (uint64_t)(wake - now) : 0, 0);
}

/* ---- writing what was confirmed ---------------------------------------------------------------
 */

struct confirm {
  uv_work_t work;
  struct secondary *owner;
  size_t count;
  struct {
    struct managed *managed;
    unsigned generation;
    struct secondary_info info;
  } items[];
};

static void confirm_work(uv_work_t *work) {
  static struct log_limit limit;
  struct confirm *confirm = work->data;
  char why[SECONDARY_STORE_WHY];
  for (size_t i = 0; i < confirm->count; i++) {
    struct managed *m = confirm->items[i].managed;
    uv_mutex_lock(&m->files_lock);
    if (atomic_load(&m->generation) == confirm->items[i].generation &&
        !secondary_files_confirm(&m->files, &confirm->items[i].info, why))
      log_limited(&limit, LOG_LEVEL_ERROR, "%s", why);
    uv_mutex_unlock(&m->files_lock);
  }
}

static void confirm_done(uv_work_t *work, int status) {
  struct confirm *confirm = work->data;
  struct secondary *s = confirm->owner;
  (void)status;
  free(confirm);
  if (!s->stopping)
    uv_timer_again(&s->confirm_timer);
}

/* The zones whose confirmation is not written yet; those that are busy come later. */
static struct confirm *gather_confirmed(struct secondary *s) {
  size_t count = 0;
  for (size_t i = 0; i < s->count; i++)
    count += s->zones[i].unwritten && s->zones[i].save == NULL;
  if (count == 0)
    return NULL;
  struct confirm *confirm = calloc(1, sizeof *confirm + count * sizeof confirm->items[0]);
  if (confirm == NULL)
    return NULL;
  confirm->owner = s;
  for (size_t i = 0; i < s->count && confirm->count < count; i++) {
    struct managed *m = &s->zones[i];
    if (!m->unwritten || m->save != NULL)
      continue;
    confirm->items[confirm->count].managed = m;
    confirm->items[confirm->count].generation = atomic_load(&m->generation);
    confirm->items[confirm->count++].info = m->info;
    m->unwritten = false;
  }
  return confirm;
}

static void on_confirm(uv_timer_t *timer) {
  struct secondary *s = timer->data;
  struct confirm *confirm = gather_confirmed(s);
  if (confirm == NULL)
    return;
  confirm->work.data = confirm;
  if (uv_queue_work(s->options.loop, &confirm->work, confirm_work, confirm_done) == 0)
    uv_timer_stop(&s->confirm_timer);
  else
    free(confirm);
}

/* ---- NOTIFY -----------------------------------------------------------------------------------
 */

/* In the thread that answers. */
static void on_notify(void *arg, size_t zone, unsigned primary, bool has_serial, uint32_t serial) {
  struct secondary *s = arg;
  _Atomic uint64_t *notified = &s->zones[zone].notified;
  uint64_t word = notify_word(primary, has_serial, serial);
  uint64_t waiting = atomic_load(notified);
  while (!atomic_compare_exchange_weak(notified, &waiting, notify_word_merge(waiting, word))) {
  }
  uv_async_send(&s->async);
}

static void take_notify(struct managed *m, uint64_t word) {
  struct secondary *s = m->owner;
  s->counters[SECONDARY_NOTIFIES]++;
  secondary_zone_notify(&m->zone, notify_word_primary(word), notify_word_has_serial(word),
                        (uint32_t)word, secondary_now(s));
}

static void on_async(uv_async_t *async) {
  struct secondary *s = async->data;
  for (size_t i = 0; i < s->count; i++) {
    uint64_t word = atomic_exchange(&s->zones[i].notified, 0);
    if (word != 0)
      take_notify(&s->zones[i], word);
  }
  secondary_look_at_all(s);
}

/* ---- start and end ----------------------------------------------------------------------------
 */

bool secondary_init_handles(struct secondary *s) {
  uv_loop_t *loop = s->options.loop;
  if (uv_async_init(loop, &s->async, on_async) != 0)
    return false;
  uv_timer_init(loop, &s->timer);
  uv_timer_init(loop, &s->confirm_timer);
  s->async.data = s->timer.data = s->confirm_timer.data = s;
  s->gate.notify = on_notify;
  s->gate.arg = s;
  return true;
}

void secondary_start(struct secondary *s) {
  s->started = true;
  uv_timer_start(&s->confirm_timer, on_confirm, CONFIRM_MS, CONFIRM_MS);
  secondary_look_at_all(s);
}

void secondary_stop(struct secondary *s) {
  if (s == NULL || s->stopping)
    return;
  s->stopping = true;
  for (size_t i = 0; i < s->count; i++) {
    if (s->zones[i].client != NULL)
      secondary_client_cancel(s->zones[i].client);
    s->zones[i].client = NULL;
  }
  uv_close((uv_handle_t *)&s->async, NULL);
  uv_close((uv_handle_t *)&s->timer, NULL);
  uv_close((uv_handle_t *)&s->confirm_timer, NULL);
}
