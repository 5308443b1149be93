/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wall clock that a test moves: preloaded into a program, it adds the seconds that stand in the
 * file $SLUICE_TEST_CLOCK (8 octets, of this machine) to what the program reads of CLOCK_REALTIME.
 * Other clocks go on as they are.  No allocation and no lock in it, so that it works under
 * sanitizers and from any thread.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void open_shift(void) {
  const char *path = getenv("SLUICE_TEST_CLOCK");
  int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED)
    shift = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && shift != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += *shift;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
    return -1;
  *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL)
    *out = now.tv_sec;
  return now.tv_sec;
}
