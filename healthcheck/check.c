/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/check.h"

const char *check_type_name(enum check_type type) {
  static const char *const names[] = {"http", "https", "tcp", "dns", "icmp", "exec"};
  return names[type];
}
