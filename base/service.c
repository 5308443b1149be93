/* SPDX-License-Identifier: Apache-2.0 */
#include "base/service.h"

#include <signal.h>

#include "base/log.h"
#include "base/supervisor.h"

static void on_signal(uv_signal_t *handle, int number) {
  struct service *service = handle->data;
  if (number == SIGHUP)
    service->reload(service->arg);
  else
    service_stop(service);
}

static void on_watchdog(uv_timer_t *timer) {
  (void)timer;
  supervisor_alive();
}

bool service_open(struct service *service, void (*reload)(void *arg), void *arg) {
  uv_signal_t *handles[] = {&service->terminate, &service->interrupt, &service->hangup};
  const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
  service->reload = reload;
  service->arg = arg;
  if (uv_loop_init(&service->loop) != 0)
    return false;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (uv_signal_init(&service->loop, handles[i]) != 0)
      return false;
    handles[i]->data = service;
    bool wanted = numbers[i] != SIGHUP || reload != NULL;
    if (wanted && uv_signal_start(handles[i], on_signal, numbers[i]) != 0)
      return false;
  }
  uv_timer_init(&service->loop, &service->watchdog);
  uint64_t every = supervisor_watchdog_ms();
  return every == 0 || uv_timer_start(&service->watchdog, on_watchdog, every, every) == 0;
}

void service_run(struct service *service, const char *status) {
  supervisor_ready(status);
  uv_run(&service->loop, UV_RUN_DEFAULT);
  log_info("stopping");
  supervisor_stopping();
}

void service_stop(struct service *service) {
  uv_stop(&service->loop);
}

void service_close(struct service *service) {
  uv_close((uv_handle_t *)&service->terminate, NULL);
  uv_close((uv_handle_t *)&service->interrupt, NULL);
  uv_close((uv_handle_t *)&service->hangup, NULL);
  uv_close((uv_handle_t *)&service->watchdog, NULL);
  uv_run(&service->loop, UV_RUN_DEFAULT);
  uv_loop_close(&service->loop);
}
