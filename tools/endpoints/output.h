/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a command of `endpoints` prints for people: text on a terminal or in a pipe, or the same as
 * the blocks of a chat message (Slack's Block Kit).
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_OUTPUT_H
#define SLUICE_TOOLS_ENDPOINTS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum output_format { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_SLACK };

struct output {
  FILE *file; /* print there; with OUTPUT_JSON nowhere */
  enum output_format format;
  bool colour;
  char *text; /* what was printed, for the blocks */
  size_t size;
};

/* "text", "json" or "slack"; false for another word. */
bool output_format_read(const char *word, enum output_format *format);

/* False after an error was printed. */
bool output_open(struct output *output, enum output_format format);

/* Prints what is left: the blocks, or `document` (borrowed; may be NULL otherwise) as JSON.  False
 * after an error was printed. */
bool output_close(struct output *output, const json_t *document);

/* A text as blocks, each within the limits of a message: {"text", "blocks"}.  A new reference. */
json_t *output_blocks(const char *text);

#endif
