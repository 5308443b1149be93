/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of health checks (zones/config_health.h), as the provider kept them, into domain.yaml:
 * what all endpoints have in common is the domain's, the rest each endpoint's own.
 *
 * The settings are hostile: only known keys are written, and the checker judges their values.
 */
#ifndef SLUICE_TOOLS_SYNC_IMPORT_HEALTH_H
#define SLUICE_TOOLS_SYNC_IMPORT_HEALTH_H

#include <jansson.h>

#include "tools/sync/import_yaml.h"

/* The keys that have one value in the settings of all endpoints; a new reference. */
json_t *import_health_common(const json_t *health);

/* What an endpoint's settings have beside the common ones; a new reference, NULL for NULL. */
json_t *import_health_own(const json_t *settings, const json_t *common);

/* As a map in one line. */
void import_health_write(struct yaml_out *yaml, const json_t *settings);

#endif
