/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back from a name server.  Input: an octet that chooses the question, then the message,
 * whose ID is set right, as nobody guesses it.
 *
 * Whatever is heard has records that JSON can hold, and counts in some set of values.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/sync/ask_private.h"
#include "tools/sync/verify_private.h"

enum { ID = 4711, QUESTIONS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ask_question questions[QUESTIONS] = {
    {.name = "www.example.", .type = 1, .family = AF_UNSPEC},
    {.name = "example.", .type = 2, .family = AF_INET, .bits = 24},
    {.name = "*.example.", .type = 16, .family = AF_UNSPEC},
    {.name = ".", .type = 28, .family = AF_INET6, .bits = 56},
};
static const char *const types[QUESTIONS] = {"A", "NS", "TXT", "AAAA"};

static void require(bool condition) {
  if (!condition)
    abort();
}

static void use(size_t which, const struct ask_answer *answer) {
  struct verify_observed seen;
  char *text = json_dumps(answer->records, 0);
  require(text && answer->answered && answer->why[0] == '\0');
  free(text);
  require(verify_observed_open(&seen));
  require(verify_observed_add(&seen, answer, questions[which].name, types[which]));
  require(seen.answers + seen.silent == 1 && json_object_size(seen.sets) == seen.answers);
  verify_observed_close(&seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ask_answer answer;
  if (size == 0 || size > ASK_REPLY)
    return 0;
  size_t which = data[0] % QUESTIONS;
  size_t len = size - 1;
  uint8_t *message = malloc(len + 1);
  require(message != NULL);
  memcpy(message, data + 1, len);
  if (len >= 2) {
    message[0] = ID >> 8;
    message[1] = ID & 0xff;
  }
  enum ask_heard heard = ask_read(&questions[which], ID, message, len, &answer);
  if (heard == ASK_GOOD)
    use(which, &answer);
  else
    require(!answer.records && !answer.answered);
  require(heard != ASK_BROKEN || answer.why[0] != '\0');
  ask_answer_close(&answer);
  free(message);
  return 0;
}
