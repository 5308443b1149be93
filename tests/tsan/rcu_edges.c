/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells ThreadSanitizer what liburcu orders.  The library is not instrumented, so that a grace
 * period is invisible and every free behind it would be reported as a race with the readers before
 * it.  Preloaded by the tests into programs built with -Db_sanitize=thread: what a reader did
 * before it went offline happens before the end of a grace period.  A pointer that is used after
 * that is still reported, which no suppression would leave.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

static char edge;

#define NEXT(name) ((void (*)(void))dlsym(RTLD_NEXT, name))

void urcu_qsbr_thread_offline(void);
void urcu_qsbr_thread_offline(void) {
  __tsan_release(&edge);
  NEXT("urcu_qsbr_thread_offline")();
}

void urcu_qsbr_quiescent_state(void);
void urcu_qsbr_quiescent_state(void) {
  __tsan_release(&edge);
  NEXT("urcu_qsbr_quiescent_state")();
}

void urcu_qsbr_unregister_thread(void);
void urcu_qsbr_unregister_thread(void) {
  __tsan_release(&edge);
  NEXT("urcu_qsbr_unregister_thread")();
}

void urcu_qsbr_synchronize_rcu(void);
void urcu_qsbr_synchronize_rcu(void) {
  NEXT("urcu_qsbr_synchronize_rcu")();
  __tsan_acquire(&edge);
}
