/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as people would write it, out of texts from anywhere.
 *
 * Every scalar is a text for zones/yaml_tree.h, which gives back exactly what was put in.  Texts
 * that other readers of YAML would take for something else (`no`, `1e3`, `0x10`, `~`, `*x`, `a: b`)
 * stand in quotes.  Only texts that are UTF-8 without NUL can be written; anything else makes the
 * writer fail as a whole.
 *
 * One writer makes one document.  Its parts are written in order: maps take a key (a text), then
 * its value.
 */
#ifndef SLUICE_TOOLS_SYNC_IMPORT_YAML_H
#define SLUICE_TOOLS_SYNC_IMPORT_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct yaml_out;

/* A writer that appends to `out`, which must outlive it; NULL without memory. */
struct yaml_out *yaml_out_open(struct buf *out);

/* Ends the document and frees the writer.  False if any part of it could not be written. */
bool yaml_out_close(struct yaml_out *yaml);

/* Begins and ends a map or a list; `flow` writes it in one line, in braces or brackets, and so all
 * that it holds. */
void yaml_out_map(struct yaml_out *yaml, bool flow);
void yaml_out_end_map(struct yaml_out *yaml);
void yaml_out_list(struct yaml_out *yaml, bool flow);
void yaml_out_end_list(struct yaml_out *yaml);

/* A scalar. */
void yaml_out_text(struct yaml_out *yaml, const char *text);
void yaml_out_octets(struct yaml_out *yaml, const char *text, size_t len);
void yaml_out_number(struct yaml_out *yaml, uint64_t number);
void yaml_out_bool(struct yaml_out *yaml, bool value);

/* True if the octets can be written as a scalar: UTF-8 without NUL. */
bool yaml_out_can(const char *text, size_t len);

#endif
