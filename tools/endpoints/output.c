/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli.h"

enum {
  BLOCK_TEXT = 2900, /* octets of a section's text; 3000 characters are possible */
  BLOCKS = 48,       /* in a message; 50 are possible */
};

bool output_format_read(const char *word, enum output_format *format) {
  static const char *const words[] = {
      [OUTPUT_TEXT] = "text", [OUTPUT_JSON] = "json", [OUTPUT_SLACK] = "slack"};
  for (int i = 0; i < 3; i++)
    if (strcmp(word, words[i]) == 0) {
      *format = (enum output_format)i;
      return true;
    }
  return false;
}

bool output_open(struct output *output, enum output_format format) {
  const char *no_colour = getenv("NO_COLOR");
  *output = (struct output){.format = format, .file = stdout};
  if (format == OUTPUT_TEXT)
    output->colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
  else
    output->file = open_memstream(&output->text, &output->size);
  if (output->file)
    return true;
  cli_error("out of memory");
  return false;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static json_t *section(struct buf *text) {
  buf_add_str(text, "```");
  json_t *block = json_pack("{s:s, s:{s:s, s:s}}", "type", "section", "text", "type", "mrkdwn",
                            "text", buf_text(text));
  buf_clear(text);
  return block;
}

/* One character, as it has to be written in a message; returns its length. */
static size_t add_character(struct buf *out, const char *p) {
  size_t n = utf8_sequence((const unsigned char *)p);
  if (*p == '&')
    buf_add_str(out, "&amp;");
  else if (*p == '<')
    buf_add_str(out, "&lt;");
  else if (*p == '>')
    buf_add_str(out, "&gt;");
  else if (*p == '`' || n == 0)
    buf_add_u8(out, n ? '\'' : '?');
  else
    buf_add(out, p, n);
  return n ? n : 1;
}

static void add_line(struct buf *out, const char *line, size_t len) {
  for (size_t i = 0; i < len;)
    i += add_character(out, line + i);
  buf_add_u8(out, '\n');
}

/* True if a line still fits into the block. */
static bool fits(const struct buf *text, size_t len) {
  return text->len + 5 * len + 8 < BLOCK_TEXT;
}

json_t *output_blocks(const char *text) {
  json_t *blocks = json_array();
  struct buf block;
  buf_init(&block);
  while (*text && json_array_size(blocks) < BLOCKS) {
    size_t line = strcspn(text, "\n");
    size_t part = line < 400 ? line : 400;
    if (block.len > 0 && !fits(&block, part))
      json_array_append_new(blocks, section(&block));
    if (block.len == 0)
      buf_add_str(&block, "```\n");
    while (part < line && part > 390 && (text[part] & 0xc0) == 0x80)
      part--; /* not inside of a character */
    add_line(&block, text, part);
    text += part + (text[part] == '\n');
  }
  if (block.len > 0)
    json_array_append_new(blocks, section(&block));
  if (*text)
    json_array_append_new(blocks, json_pack("{s:s, s:[{s:s, s:s}]}", "type", "context", "elements",
                                            "type", "plain_text", "text",
                                            "There is more; ask for fewer domains or regions."));
  buf_close(&block);
  return blocks;
}

static json_t *message(const char *text) {
  struct buf summary;
  buf_init(&summary);
  for (size_t i = 0, end = strcspn(text, "\n"); i < end && i < 300;)
    i += add_character(&summary, text + i);
  json_t *document =
      json_pack("{s:s, s:o}", "text", buf_text(&summary), "blocks", output_blocks(text));
  buf_close(&summary);
  return document;
}

bool output_close(struct output *output, const json_t *document) {
  bool ok = true;
  if (output->format == OUTPUT_TEXT)
    return cli_flush();
  ok = fclose(output->file) == 0;
  if (!ok || (output->format == OUTPUT_JSON && !document)) {
    cli_error("out of memory");
    ok = false;
  } else if (output->format == OUTPUT_JSON) {
    ok = cli_print_json(document);
  } else {
    json_t *blocks = message(output->text);
    ok = cli_print_json(blocks);
    json_decref(blocks);
  }
  free(output->text);
  return ok;
}
