/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every command of `sluice` shares: options, help, errors, output.
 *
 * A command is a function of its arguments (argv[0] is its own name) that returns the exit status.
 * It describes itself with a `cli_spec`; cli_parse() then reads the arguments and answers --help.
 */
#ifndef SLUICE_TOOLS_CLI_H
#define SLUICE_TOOLS_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Exit statuses (docs: "Exit status"). */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_PARTIAL = 3 };

/* `value` is the placeholder of an option that takes one ("FILE"), NULL for a flag.  Exactly one of
 * `text` and `flag` is set: where the value goes (it points into argv). */
struct cli_option {
  const char *name; /* without the dashes */
  const char *value;
  const char *help;
  const char **text;
  bool *flag;
};

struct cli_spec {
  const char *usage;    /* lines "sluice explain DOMAIN --client IP ...", separated by \n */
  const char *about;    /* what it does, some lines */
  const char *examples; /* lines */
  const struct cli_option *options;
  size_t option_count;
  size_t min_args; /* positional arguments */
  size_t max_args;
};

#define CLI_COUNT(array) (sizeof(array) / sizeof *(array))

enum cli_next { CLI_GO_ON, CLI_EXIT_DONE, CLI_EXIT_USAGE };

/*
 * Reads options and positional arguments in any order ("--" ends the options).  The positional ones
 * are moved to argv[1..*count].  On CLI_EXIT_DONE the help was printed; on CLI_EXIT_USAGE the
 * error.
 */
enum cli_next cli_parse(const struct cli_spec *spec, int argc, char **argv, size_t *count);

/* Prints `sluice: MESSAGE` as one line on stderr; control characters are replaced. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on this thread's first error goes into `out` (which holds "" at first) and none to
 * stderr; NULL ends that.  For long-lived programs. */
void cli_capture(char *out, size_t size);

/* Like cli_error(), and returns the exit status for wrong usage. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "; did you mean NAME?" for a message, or "" if nothing is near; static storage. */
const char *cli_did_you_mean(const char *word, const char *const *candidates, size_t count);

/* The ending of a noun after a number: "" for 1, else "s". */
const char *cli_s(long long n);

/* Prints a document on stdout, keys in their order; false (with the error printed) if it cannot. */
bool cli_print_json(const json_t *document);

/* Flushes stdout; false (with the error printed) when something could not be written, for example
 * to a full disk: a command must not say "done" then. */
bool cli_flush(void);

/* Prints text from elsewhere (a server, a file) so that it cannot drive the terminal. */
void cli_print_text(FILE *out, const char *text);

#endif
