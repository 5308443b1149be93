/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `health:` settings: checked where they are written, then merged defaults.yaml < domain <
 * endpoint.
 *
 * The merged settings of one endpoint are an object with these keys (times in milliseconds):
 *   type                "http" "https" "tcp" "dns" "icmp" "exec"
 *   interval, timeout   integers
 *   rise, fall          integers, 1 to 100
 *   damping             {changes, within, hold}, if set
 *   port                http, https, tcp, dns
 *   path, method, headers {name: value}, host (if set), follow_redirects       http, https
 *   verify, ca_file (if set)                                                   https
 *   send (if set)                                                              tcp
 *   name, rrtype                                                               dns
 *   check                                                                      exec
 *   expect              status: [[200, 299], ...] and body (if set)            http, https
 *                       data (if set)                                          tcp, dns
 *                       rcode                                                  dns
 */
#ifndef SLUICE_ZONES_CONFIG_HEALTH_H
#define SLUICE_ZONES_CONFIG_HEALTH_H

#include "zones/config.h"

/* Checks the values of one `health:` block and gives them as JSON; only what is written there. NULL
 * after an error.  `type` need not be present. */
json_t *config_health_block(const struct config_file *file, const struct yaml_node *node);

/* Reports an interval shorter than the timeout, if the block holds both.  For blocks that are not
 * merged into another; config_health_merge() does it for the rest. */
bool config_health_check_times(const struct config_file *file, const struct yaml_node *node,
                               const json_t *block);

/*
 * Merges the blocks (any but `domain` may be NULL) for one endpoint.  Problems of the whole are
 * reported at `where`, the key of the most specific block, or at a key of that `block`.  NULL after
 * an error.
 */
json_t *config_health_merge(const struct config_file *file, const struct yaml_node *where,
                            const struct yaml_node *block, const json_t *defaults,
                            const json_t *domain, const json_t *endpoint);

/* Reports keys of a block that do not belong to `type` (of the merged settings). */
bool config_health_check_keys(const struct config_file *file, const struct yaml_node *node,
                              const char *type);

#endif
