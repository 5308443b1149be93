/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the engine: what its files share. */
#ifndef SLUICE_HEALTHCHECK_ENGINE_PRIVATE_H
#define SLUICE_HEALTHCHECK_ENGINE_PRIVATE_H

#include "base/rng.h"
#include "healthcheck/alerts.h"
#include "healthcheck/engine.h"
#include "healthcheck/feed.h"
#include "healthcheck/list.h"
#include "healthcheck/schedule.h"
#include "healthcheck/state_file.h"
#include "healthcheck/state_machine.h"

/* One probe of the list, with what is known of it.  Lives over reloads. */
struct slot {
  struct engine *engine;
  struct list_check *check;   /* a reference */
  struct probe_target target; /* `host` is `text` */
  char *text;
  uint32_t probe; /* its index in the list */
  uint32_t entry; /* its number in the schedule */
  struct machine machine;
  uint8_t judged;         /* enum machine_state, as told last */
  bool held;              /* as told last */
  bool seen;              /* there was a result since the start */
  bool ok;                /* the last result */
  int64_t since;          /* Unix seconds: of `judged` */
  int64_t at;             /* Unix seconds: of the last result, 0: none yet */
  char *why;              /* of the last result, or NULL */
  uint64_t failing_since; /* ms; 0: the last result was none or good */
  struct probe *running;
  uint64_t started; /* ms */
};

/* What was told of a subject. */
struct told {
  uint8_t state[2]; /* enum feed_state, for IPv4 and IPv6 */
  uint64_t why[2];  /* hash of the text */
};

struct engine_waiter {
  struct engine_waiter *next;
  engine_reload_fn *done;
  void *arg;
};

struct engine {
  uv_loop_t *loop;
  const struct health_settings *settings;
  struct rng rng;
  struct probe_set *probes;
  struct schedule *schedule;
  struct feed *feed;
  struct alerts *alerts;
  struct list *list;        /* NULL: no build yet */
  struct list *alerts_list; /* whose domains the alerts use; mostly `list` */
  char build[LIST_BUILD];
  struct slot **slots;            /* by the probes of the list */
  struct told *told;              /* by the subjects of the list */
  struct slot **entries;          /* by number in the schedule; NULL: free */
  uint32_t entry_cap, entry_free; /* entry_free: none below is free */
  struct engine_test *tests;

  uv_timer_t pump; /* for the next probe */
  uv_timer_t tick; /* for all that is looked at now and then */
  unsigned open_handles;
  bool closing;
  uint64_t last_seen;   /* ms: when the loop was last seen running */
  uint64_t last_asleep; /* ms: of CLOCK_BOOTTIME that CLOCK_MONOTONIC does not have */
  uint64_t stalled_to;  /* ms: results of what was started before say nothing when they are bad */
  uint32_t ticks;

  /* loading */
  uv_work_t load;
  bool loading, load_again;
  struct list *loaded;
  bool load_missing;
  char load_build[LIST_BUILD], load_why[LIST_WHY];
  char failed_build[LIST_BUILD]; /* not tried again by itself */
  struct engine_waiter *waiting, *next;
  int64_t reloaded_at; /* Unix seconds, 0: never */
  char reload_error[LIST_WHY];

  /* saving */
  uv_work_t save;
  struct buf saving;
  bool save_busy, dirty;
  uint64_t save_not_before; /* ms */
  char save_why[STATE_FILE_WHY];
  bool save_failed;

  /* isolation */
  uint32_t seen, failing; /* slots */
  bool isolated;

  uint64_t probes_done, probes_void, late_max;
};

/* Monotonic ms.  Notices when the process did not run for a while. */
uint64_t engine_now(struct engine *engine);
int64_t engine_clock(void); /* Unix seconds, to be shown */

/* engine.c */
void engine_pump(struct engine *engine); /* arms the timer for the next probe */
void engine_overrides(void *arg, const json_t *list);

/* engine_slots.c: probes and their results */
struct slot *slot_open(struct engine *engine, const struct list_probe *probe,
                       const struct state_saved *saved, bool exact);
void slot_close(struct slot *slot);
/* Puts it into the schedule; `soon` as in struct schedule_timing. */
bool slot_start(struct slot *slot, uint32_t soon);
bool slot_is_undecided(const struct slot *slot);
void slot_probe(struct slot *slot); /* its turn has come */
void slot_saved(const struct slot *slot, struct state_saved *saved);

/* engine_install.c: takes a list into use; false without memory, then nothing has changed */
bool engine_install(struct engine *engine, struct list *list, const char *build, char *why);

/* engine_tell.c: verdicts of subjects for feed and alerts */
void engine_tell_slot(struct slot *slot);
void engine_tell_all(struct engine *engine); /* alerts, after an installation */
void engine_snapshot(void *arg, struct feed *feed);

/* engine_save.c */
void engine_save_tick(struct engine *engine, uint64_t now);
bool engine_save_now(struct engine *engine, char *why);

/* engine_isolation.c */
void engine_isolation_tick(struct engine *engine, uint64_t now);

/* engine_report.c: the index of a domain, which may be written without its end if that is clear, or
 * false with a reason (ENGINE_WHY octets); that of an endpoint, or false. */
bool engine_find_domain(const struct engine *engine, const char *given, uint32_t *index, char *why);
bool engine_find_endpoint(const struct engine *engine, uint32_t domain, const char *endpoint,
                          uint16_t *index);
/* What is asked for: a path, a name, a program; or NULL. */
const char *engine_what(const struct check *check);

#endif
