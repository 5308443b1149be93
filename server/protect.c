/* SPDX-License-Identifier: Apache-2.0 */
#include "server/protect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <urcu-qsbr.h>

#include "base/log.h"
#include "server/cookie.h"

enum { ROTATION_MS = 24 * 3600 * 1000 };

static void wipe_and_free(struct cookie_secrets *secrets) {
  if (secrets == NULL)
    return;
  cookie_secrets_wipe(secrets);
  free(secrets);
}

/* Puts secrets in the place of those in use, which are freed once no worker reads them. */
static void publish(struct protect *p, struct cookie_secrets *secrets) {
  const struct cookie_secrets *old =
      atomic_exchange_explicit(&p->config->cookies, secrets, memory_order_acq_rel);
  if (old == NULL)
    return;
  synchronize_rcu();
  wipe_and_free((struct cookie_secrets *)(uintptr_t)old);
}

static bool random_octets(uint8_t out[COOKIE_SECRET_SIZE], char *why) {
  if (getrandom(out, COOKIE_SECRET_SIZE, 0) == COOKIE_SECRET_SIZE)
    return true;
  snprintf(why, PROTECT_WHY, "the kernel gives no random numbers");
  return false;
}

static struct cookie_secrets *read_secrets(const char *path, char *why) {
  struct cookie_secrets *secrets = calloc(1, sizeof *secrets);
  if (secrets == NULL) {
    snprintf(why, PROTECT_WHY, "out of memory");
    return NULL;
  }
  if (settings_protect_secrets(path, secrets, why))
    return secrets;
  wipe_and_free(secrets);
  return NULL;
}

static struct cookie_secrets *make_secrets(char *why) {
  uint8_t random[COOKIE_SECRET_SIZE];
  struct cookie_secrets *secrets = calloc(1, sizeof *secrets);
  if (secrets == NULL) {
    snprintf(why, PROTECT_WHY, "out of memory");
    return NULL;
  }
  if (!random_octets(random, why)) {
    free(secrets);
    return NULL;
  }
  cookie_secrets_generate(secrets, random);
  explicit_bzero(random, sizeof random);
  return secrets;
}

static void rotate(uv_timer_t *timer) {
  struct protect *p = timer->data;
  char why[PROTECT_WHY];
  uint8_t random[COOKIE_SECRET_SIZE];
  struct cookie_secrets *next = calloc(1, sizeof *next);
  if (next == NULL || !random_octets(random, why)) {
    log_warning("the cookie secret was not rotated: %s", next == NULL ? "out of memory" : why);
    free(next);
    return;
  }
  *next = *atomic_load_explicit(&p->config->cookies, memory_order_acquire);
  cookie_secrets_rotate(next, random);
  explicit_bzero(random, sizeof random);
  publish(p, next);
}

bool protect_open(struct protect *p, const struct settings_protect *settings,
                  struct query_config *config, uv_loop_t *loop, char *why) {
  *p = (struct protect){.settings = settings, .config = config};
  config->version = settings->chaos_version;
  config->server_id = settings->chaos_id;
  if (settings->cookies != NULL && strcmp(settings->cookies, "off") == 0)
    return true;
  struct cookie_secrets *secrets = settings->cookie_secrets != NULL
                                       ? read_secrets(settings->cookie_secrets, why)
                                       : make_secrets(why);
  if (secrets == NULL)
    return false;
  publish(p, secrets);
  if (settings->cookie_secrets != NULL)
    return true;
  uv_timer_init(loop, &p->rotation);
  p->rotation.data = p;
  p->timer_open = true;
  uv_timer_start(&p->rotation, rotate, ROTATION_MS, ROTATION_MS);
  uv_unref((uv_handle_t *)&p->rotation);
  return true;
}

bool protect_reload(struct protect *p, char *why) {
  if (p->settings == NULL || p->settings->cookie_secrets == NULL)
    return true;
  struct cookie_secrets *secrets = read_secrets(p->settings->cookie_secrets, why);
  if (secrets == NULL)
    return false;
  publish(p, secrets);
  return true;
}

void protect_stop(struct protect *p) {
  if (!p->timer_open)
    return;
  p->timer_open = false;
  uv_close((uv_handle_t *)&p->rotation, NULL);
}

void protect_close(struct protect *p) {
  if (p->config == NULL)
    return;
  wipe_and_free((struct cookie_secrets *)(uintptr_t)atomic_exchange_explicit(
      &p->config->cookies, NULL, memory_order_acq_rel));
}
