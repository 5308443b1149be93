/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/times.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t longest = INT64_C(10) * 366 * 86400;

const char *times_span(double seconds, char out[TIMES_TEXT]) {
  long long s = seconds > 0 && seconds < 1e15 ? (long long)seconds : 0;
  if (s >= 86400)
    snprintf(out, TIMES_TEXT, "%lld d %lld h", s / 86400, s / 3600 % 24);
  else if (s >= 3600)
    snprintf(out, TIMES_TEXT, "%lld h %lld min", s / 3600, s / 60 % 60);
  else if (s >= 60)
    snprintf(out, TIMES_TEXT, "%lld min", s / 60);
  else
    snprintf(out, TIMES_TEXT, "%lld s", s);
  return out;
}

const char *times_utc(int64_t when, char out[TIMES_TEXT]) {
  time_t t = (time_t)when;
  struct tm tm;
  if (!gmtime_r(&t, &tm) || !strftime(out, TIMES_TEXT, "%Y-%m-%d %H:%M:%S UTC", &tm))
    snprintf(out, TIMES_TEXT, "%lld", (long long)when);
  return out;
}

bool times_read_span(const char *text, int64_t *seconds) {
  static const struct {
    char name;
    int64_t seconds;
  } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
  int64_t total = 0;
  size_t next = 0; /* units come in falling order */
  if (!*text)
    return false;
  while (*text) {
    int64_t value = 0;
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 9)
      return false;
    for (size_t i = 0; i < n; i++)
      value = value * 10 + (text[i] - '0');
    text += n;
    while (next < sizeof units / sizeof *units && units[next].name != *text)
      next++;
    if (next == sizeof units / sizeof *units)
      return false;
    total += value * units[next++].seconds;
    text++;
  }
  *seconds = total;
  return total > 0 && total <= longest;
}
