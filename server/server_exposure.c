/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_exposure.h"

#include "base/log.h"
#include "server/exposure.h"
#include "server/tcp.h"
#include "server/worker.h"

static uint64_t seconds(void) {
  return uv_hrtime() / 1000000000;
}

static void drain(struct server *server, struct exposure_ring *ring) {
  if (ring != NULL)
    exposure_drain(server->exposure, ring, server->served, seconds());
}

static void drain_all(struct server *server) {
  for (unsigned i = 0; server->workers != NULL && i < worker_count(server->workers); i++)
    drain(server, worker_exposure(server->workers, i));
  if (server->tcp != NULL)
    drain(server, tcp_exposure(server->tcp));
  if (server->tls.tcp != NULL)
    drain(server, tcp_exposure(server->tls.tcp));
}

static void on_tick(uv_timer_t *timer) {
  drain_all(timer->data);
}

void server_exposure_start(struct server *server) {
  uv_timer_init(server->loop, &server->exposure_timer);
  server->exposure_timer.data = server;
  server->exposure = exposure_open();
  if (server->exposure != NULL)
    uv_timer_start(&server->exposure_timer, on_tick, EXPOSURE_TICK_MS, EXPOSURE_TICK_MS);
  else
    log_warning("answers are not counted for `exposure`: out of memory");
}

void server_exposure_stop(struct server *server) {
  uv_close((uv_handle_t *)&server->exposure_timer, NULL);
}

void server_exposure_close(struct server *server) {
  exposure_close(server->exposure);
}

void server_exposure_publish(struct server *server, struct served *served) {
  served->view.generation = ++server->generation;
  if (server->exposure == NULL || server->served == NULL)
    return;
  drain_all(server);
  exposure_move(server->exposure, server->served, served);
}

json_t *server_exposure_json(struct server *server, uint32_t domain) {
  if (server->exposure == NULL)
    return NULL;
  drain_all(server);
  return exposure_json(server->exposure, server->served, domain, seconds());
}
