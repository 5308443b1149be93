/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_tls.h"

#include <stdio.h>
#include <time.h>

#include "base/log.h"

enum { DAY = 86400, SOON = 14 * DAY };

bool server_tls_open(struct server_tls *tls, const struct settings *settings, char *why) {
  *tls = (struct server_tls){.settings = settings};
  if (settings->tls.listen_count == 0)
    return true;
  tls->tcp = tcp_open(settings->tls.listen, settings->tls.listen_count, why);
  return tls->tcp != NULL;
}

/* A certificate that has run out is used all the same: some answer beats none, and clients that
 * check it say so. */
static void log_expiry(const struct server_tls *tls) {
  const char *path = tls->settings->tls.cert;
  int64_t left = tls_server_expires(tls->files) - (int64_t)time(NULL);
  if (left < 0)
    log_warning("the certificate in %s has expired", path);
  else if (left < SOON)
    log_warning("the certificate in %s expires within %d days", path,
                (int)((left + DAY - 1) / DAY));
}

/* Puts the place of the file in the settings before the reason. */
static void blame_file(const struct server_tls *tls, enum tls_blame blame, char *why) {
  if (blame != TLS_BLAME_NONE)
    settings_blame(tls->settings, blame == TLS_BLAME_KEY ? "tls-key" : "tls-cert", why);
}

bool server_tls_load(struct server_tls *tls, char *why) {
  enum tls_blame blame;
  if (tls->tcp == NULL)
    return true;
  tls->files = tls_server_open(tls->settings->tls.cert, tls->settings->tls.key, &blame, why);
  if (tls->files != NULL)
    log_expiry(tls);
  else
    blame_file(tls, blame, why);
  return tls->files != NULL;
}

bool server_tls_start(struct server_tls *tls, const struct view *_Atomic *view,
                      const struct query_config *config, const struct tcp_limits *limits,
                      char *why) {
  if (tls->tcp == NULL)
    return true;
  if (!tcp_use_tls(tls->tcp, tls->files)) {
    snprintf(why, TLS_WHY, "out of memory");
    return false;
  }
  for (size_t i = 0; i < tls->settings->tls.listen_count; i++)
    log_info("listening on %s (TLS)", tls->settings->tls.listen[i].text);
  return tcp_start(tls->tcp, view, config, limits, why);
}

void server_tls_reload(const struct server_tls *tls, char *warning) {
  warning[0] = '\0';
  if (tls->files == NULL)
    return;
  enum tls_blame blame;
  char why[TLS_WHY];
  if (tls_server_reload(tls->files, &blame, why)) {
    log_expiry(tls);
    return;
  }
  blame_file(tls, blame, why);
  snprintf(warning, TLS_WHY, "the old TLS certificate stays in use: %.470s", why);
  log_warning("%s", warning);
}

void server_tls_stop(struct server_tls *tls) {
  tcp_stop(tls->tcp);
  tls->tcp = NULL;
}

void server_tls_close(struct server_tls *tls) {
  tls_server_close(tls->files);
  tls->files = NULL;
}

json_t *server_tls_json(const struct server_tls *tls) {
  if (tls->files == NULL)
    return json_null();
  json_t *listen = json_array();
  for (size_t i = 0; i < tls->settings->tls.listen_count; i++)
    json_array_append_new(listen, json_string(tls->settings->tls.listen[i].text));
  return json_pack("{s:o, s:s, s:I, s:s?}", "listen", listen, "certificate",
                   tls->settings->tls.cert, "expires", (json_int_t)tls_server_expires(tls->files),
                   "warning", tls->warning[0] != '\0' ? tls->warning : NULL);
}
