/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher of the feed, with subscribers that are plain sockets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "healthcheck/feed_stream.h"
#include "healthcheck/feed_text.h"

static const struct feed_verdict up[2] = {{FEED_UP, 7, "status 200"}, {FEED_NONE, 0, NULL}};
static const struct feed_verdict down[2] = {{FEED_DOWN, 9, "connect refused"},
                                            {FEED_NONE, 0, NULL}};

/* ---- text --------------------------------------------------------------------------------------
 */

static const char *subject_line(struct buf *out, const char *domain, const char *why) {
  const char *targets[][2] = {{domain, "one"}, {"b.example.", "two"}};
  const struct feed_verdict verdicts[2] = {{FEED_UNKNOWN, -5, why}, {FEED_UP, 1, NULL}};
  feed_text_subject(out, 4000000000u, (const char *const(*)[2])targets, 2, verdicts);
  return buf_text(out);
}

Test(feed_text, lines) {
  struct buf out;
  buf_init(&out);
  cr_expect_str_eq(subject_line(&out, "a.example.", "ok"),
                   "{\"t\":\"subject\",\"id\":4000000000,\"targets\":[[\"a.example.\",\"one\"],"
                   "[\"b.example.\",\"two\"]],\"v4\":[\"unknown\",-5,\"ok\"],"
                   "\"v6\":[\"up\",1,\"\"]}\n");
  buf_clear(&out);
  feed_text_change(&out, UINT64_MAX, 3, down);
  cr_expect_str_eq(buf_text(&out), "{\"t\":\"change\",\"seq\":18446744073709551615,\"id\":3,"
                                   "\"v4\":[\"down\",9,\"connect refused\"],\"v6\":null}\n");
  buf_close(&out);
}

Test(feed_text, anything_is_escaped) {
  struct buf out;
  buf_init(&out);
  subject_line(&out, "a\"\\\n\x1b\x7f\xff.example.", "caf\xc3\xa9 \xc3");
  cr_assert_eq(memchr(out.data, '\n', out.len), out.data + out.len - 1);
  json_t *json = json_loadb((const char *)out.data, out.len, 0, NULL);
  cr_assert(json);
  const json_t *target = json_array_get(json_object_get(json, "targets"), 0);
  cr_expect_str_eq(json_string_value(json_array_get(target, 0)), "a\"\\\n\x1b\x7f?.example.");
  cr_expect_str_eq(json_string_value(json_array_get(json_object_get(json, "v4"), 2)),
                   "caf\xc3\xa9 ?");
  json_decref(json);
  buf_close(&out);
}

Test(feed_text, long_lines_are_split) {
  enum { MANY = 2500 };
  static char name[1000];
  static const char *targets[MANY][2];
  memset(name, 'x', sizeof name - 1);
  for (size_t i = 0; i < MANY; i++)
    targets[i][0] = targets[i][1] = i < 1200 ? "short" : name;
  struct buf out;
  buf_init(&out);
  feed_text_subject(&out, 1, (const char *const(*)[2])targets, MANY, up);
  size_t found = 0, lines = 0;
  for (char *at = (char *)out.data, *end; at < (char *)out.data + out.len; at = end + 1) {
    end = memchr(at, '\n', out.len);
    cr_assert(end && end - at <= FEED_LINE);
    json_t *json = json_loadb(at, (size_t)(end - at), 0, NULL);
    size_t count = json_array_size(json_object_get(json, "targets"));
    cr_assert(count > 0 && count <= FEED_TARGETS);
    found += count;
    lines++;
    json_decref(json);
  }
  cr_expect_eq(found, MANY);
  cr_expect_gt(lines, 3);
  buf_close(&out);
}

static enum feed_input_result input(struct feed_input *in, const char *text) {
  char why[FEED_WHY] = "";
  char copy[512];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *c = copy; *c; c++)
    if (*c == '\'')
      *c = '"';
  enum feed_input_result result = feed_input_line(in, copy, strlen(copy), why);
  cr_expect((result == FEED_INPUT_BAD) == (why[0] != '\0'), "%s: %s", text, why);
  return result;
}

#define OVERRIDE                                                                                   \
  "{'kind':'weight','domain':'a.','endpoint':'one','region':'eu','level':1,'value':3}"

Test(feed_text, what_subscribers_send) {
  struct feed_input in = {NULL};
  cr_expect_eq(input(&in, "{'t':'later','x':1}"), FEED_INPUT_NONE);
  cr_expect_eq(input(&in, "{'t':'overrides','list':[]}"), FEED_INPUT_OVERRIDES);
  cr_expect_eq(json_array_size(in.overrides), 0);
  feed_input_clear(&in);
  cr_expect_eq(input(&in, "{'t':'overrides','more':true,'list':[" OVERRIDE "]}"), FEED_INPUT_NONE);
  cr_expect_eq(input(&in, "{'t':'overrides','list':[" OVERRIDE "," OVERRIDE "]}"),
               FEED_INPUT_OVERRIDES);
  cr_expect_eq(json_array_size(in.overrides), 3);
  feed_input_clear(&in);
}

Test(feed_text, garbage_is_refused) {
  static const char *const texts[] = {
      "",
      "x",
      "[]",
      "{}",
      "{'t':7}",
      "{'t':'overrides'}",
      "{'t':'overrides','list':{}}",
      "{'t':'overrides','list':[7]}",
      "{'t':'overrides','list':[{'kind':'other','domain':'a.','endpoint':'one','value':3}]}",
      "{'t':'overrides','list':[{'kind':'status','domain':7,'endpoint':'one','value':3}]}",
      "{'t':'overrides','list':[{'kind':'status','domain':'a.','value':3}]}",
      "{'t':'overrides','list':[{'kind':'status','domain':'a.','endpoint':'one','value':-1}]}",
      ("{'t':'overrides','list':"
       "[{'kind':'health','domain':'a.','endpoint':'one','value':1,'family':7}]}"),
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct feed_input in = {NULL};
    cr_expect_eq(input(&in, texts[i]), FEED_INPUT_BAD, "%s", texts[i]);
    feed_input_clear(&in);
  }
}

/* ---- shared octets -----------------------------------------------------------------------------
 */

/* Reads all that is there in pieces of at most `step` octets; counts them from `from` on. */
static void read_all(struct feed_cursor *cursor, const struct feed_stream *stream, size_t step) {
  uv_buf_t pieces[3];
  uint64_t at = cursor->done;
  unsigned count;
  while ((count = feed_cursor_look(cursor, pieces, 3)) > 0) {
    size_t n = 0;
    for (unsigned i = 0; i < count; i++)
      for (size_t k = 0; k < pieces[i].len && n < step; k++, n++)
        cr_assert_eq((unsigned char)pieces[i].base[k], (unsigned char)(at++ % 251));
    feed_cursor_move(cursor, n);
    cr_assert_eq(cursor->done, at);
  }
  cr_expect_eq(feed_cursor_left(cursor, stream), 0);
}

Test(feed_stream, readers_at_their_own_pace) {
  struct feed_stream stream;
  struct feed_cursor fast, slow, late;
  cr_assert(feed_stream_init(&stream, true));
  feed_cursor_begin(&fast, &stream);
  feed_cursor_begin(&slow, &stream);
  uint64_t at = 0;
  for (int round = 0; round < 400; round++) {
    unsigned char data[997];
    for (size_t i = 0; i < sizeof data; i++)
      data[i] = (unsigned char)(at++ % 251);
    cr_assert(feed_stream_add(&stream, data, sizeof data));
    read_all(&fast, &stream, 500);
    if (round == 200)
      feed_cursor_end(&late, &stream);
  }
  read_all(&late, &stream, 100000);
  feed_cursor_close(&late);
  feed_cursor_close(&fast);
  read_all(&slow, &stream, 70000);
  feed_stream_close(&stream);
  feed_cursor_close(&slow);
}

/* ---- the socket --------------------------------------------------------------------------------
 */

static char folder[] = "/tmp/sluice-feed-XXXXXX";
static char path[sizeof folder + 8];
static uv_loop_t loop;
static struct feed *feed;
static size_t subjects; /* of a snapshot */
static json_t *told;    /* overrides */

static void snapshot(void *arg, struct feed *to) {
  cr_assert_eq(arg, &subjects);
  for (size_t i = 0; i < subjects; i++) {
    char domain[64];
    snprintf(domain, sizeof domain, "d%zu.example.com.", i);
    const char *target[1][2] = {{domain, "one"}};
    feed_subject(to, (uint32_t)i, (const char *const(*)[2])target, 1, up);
  }
}

static void overrides(void *arg, const json_t *list) {
  (void)arg;
  json_decref(told);
  told = json_deep_copy(list);
}

static void init(void) {
  log_setup("test", LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
  const struct feed_source source = {&subjects, snapshot, overrides};
  char why[FEED_WHY];
  cr_assert(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/feed", folder);
  cr_assert_eq(uv_loop_init(&loop), 0);
  feed = feed_open(&loop, path, &source, why);
  cr_assert(feed, "%s", why);
  subjects = 3;
}

static void fini(void) {
  feed_close(feed);
  uv_run(&loop, UV_RUN_DEFAULT);
  cr_assert_eq(uv_loop_close(&loop), 0);
  cr_expect(access(path, F_OK) != 0, "the socket is still there");
  rmdir(folder);
  json_decref(told);
}

TestSuite(feed, .init = init, .fini = fini);

static int subscribe(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
  return fd;
}

/* The next line; runs the publisher meanwhile.  "" at the end of the connection. */
static const char *next_line(int fd) {
  static char line[4096];
  size_t len = 0;
  for (;;) {
    char c;
    ssize_t n = recv(fd, &c, 1, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN))
      return "";
    if (n < 0) {
      uv_run(&loop, UV_RUN_NOWAIT);
      poll(NULL, 0, 1);
      continue;
    }
    if (c == '\n') {
      line[len] = '\0';
      return line;
    }
    cr_assert_lt(len, sizeof line - 1);
    line[len++] = c;
  }
}

static const char beat[] = "{\"t\":\"beat\"";

static bool is_beat(const char *line) {
  return strncmp(line, beat, sizeof beat - 1) == 0;
}

/* Beats come whenever the time is there, on a slow machine between any two lines. */
static void expect_line(int fd, const char *start) {
  const char *line = next_line(fd);
  while (is_beat(line) && !is_beat(start))
    line = next_line(fd);
  cr_assert(strncmp(line, start, strlen(start)) == 0, "%s, wanted %s", line, start);
}

static void expect_snapshot(int fd, const char *seq) {
  char end[64];
  expect_line(fd, "{\"t\":\"begin\"");
  for (size_t i = 0; i < subjects; i++)
    expect_line(fd, "{\"t\":\"subject\"");
  snprintf(end, sizeof end, "{\"t\":\"end\",\"seq\":%s}", seq);
  expect_line(fd, end);
}

static void send_text(int fd, const char *text, size_t len) {
  while (len > 0) {
    ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
      return; /* cut off meanwhile */
    if (n > 0) {
      text += n;
      len -= (size_t)n;
    }
    uv_run(&loop, UV_RUN_NOWAIT);
  }
}

Test(feed, snapshot_changes_and_beats) {
  int one = subscribe();
  expect_line(one, "{\"t\":\"hello\",\"format\":1,\"session\":\"");
  expect_snapshot(one, "0");
  feed_change(feed, 1, down);
  expect_line(one, "{\"t\":\"change\",\"seq\":1,\"id\":1,\"v4\":[\"down\",9,");
  int two = subscribe();
  expect_line(two, "{\"t\":\"hello\"");
  expect_snapshot(two, "1");
  feed_change(feed, 2, down);
  expect_line(one, "{\"t\":\"change\",\"seq\":2,\"id\":2");
  expect_line(two, "{\"t\":\"change\",\"seq\":2,\"id\":2");
  expect_line(one, "{\"t\":\"beat\",\"seq\":2}");
  json_t *json = feed_json(feed);
  cr_expect_eq(json_integer_value(json_object_get(json, "subscribers")), 2);
  cr_expect_eq(json_integer_value(json_object_get(json, "seq")), 2);
  json_decref(json);
  close(one);
  close(two);
}

Test(feed, reset_is_a_snapshot_for_all) {
  int fds[3];
  for (int i = 0; i < 3; i++) {
    fds[i] = subscribe();
    expect_line(fds[i], "{\"t\":\"hello\"");
    expect_snapshot(fds[i], "0");
  }
  subjects = 5;
  feed_reset(feed);
  feed_change(feed, 4, down);
  for (int i = 0; i < 3; i++) {
    expect_snapshot(fds[i], "0");
    expect_line(fds[i], "{\"t\":\"change\",\"seq\":1,\"id\":4");
    close(fds[i]);
  }
}

/* Some megabytes, read by one while the other does not; changes during the snapshot are not lost.
 */
Test(feed, large_snapshot) {
  subjects = 20000;
  int slow = subscribe();
  int fd = subscribe();
  expect_line(fd, "{\"t\":\"hello\"");
  expect_line(fd, "{\"t\":\"begin\"");
  feed_change(feed, 1, down);
  for (size_t i = 0; i < subjects; i++)
    expect_line(fd, "{\"t\":\"subject\"");
  expect_line(fd, "{\"t\":\"end\",\"seq\":0}");
  expect_line(fd, "{\"t\":\"change\",\"seq\":1");
  expect_line(slow, "{\"t\":\"hello\"");
  expect_snapshot(slow, "0");
  expect_line(slow, "{\"t\":\"change\",\"seq\":1");
  close(fd);
  close(slow);
}

Test(feed, subscriber_goes_in_the_middle) {
  subjects = 20000;
  int fd = subscribe();
  expect_line(fd, "{\"t\":\"hello\"");
  close(fd);
  feed_change(feed, 1, down);
  subjects = 1;
  feed_reset(feed);
  fd = subscribe();
  expect_line(fd, "{\"t\":\"hello\"");
  expect_snapshot(fd, "1");
  close(fd);
}

/* The first beat may have been sent before what came from there was read. */
static bool is_cut(int fd) {
  for (int beats = 0; beats < 3;) {
    const char *line = next_line(fd);
    if (line[0] == '\0')
      return true;
    beats += is_beat(line);
  }
  return false;
}

Test(feed, overrides_are_told) {
  static const char text[] =
      "{\"t\":\"overrides\",\"list\":[{\"kind\":\"status\",\"domain\":\"a.\",\"endpoint\":\"one\","
      "\"value\":2}]}\n{\"t\":\"other\"}\n";
  int fd = subscribe();
  send_text(fd, text, sizeof text - 1);
  cr_expect(!is_cut(fd));
  cr_expect_eq(json_array_size(told), 1);
  close(fd);
}

Test(feed, who_sends_garbage_is_cut_off) {
  int good = subscribe();
  int bad = subscribe();
  send_text(bad, "hello\n", 6);
  cr_expect(is_cut(bad));
  cr_expect(!is_cut(good));
  close(bad);
  close(good);
}

Test(feed, who_sends_an_endless_line_is_cut_off) {
  static char text[FEED_LINE + (1 << 18)];
  memset(text, ' ', sizeof text);
  int bad = subscribe();
  send_text(bad, text, sizeof text);
  cr_expect(is_cut(bad));
  close(bad);
}

Test(feed, who_does_not_read_is_cut_off) {
  static char reason[FEED_WHY];
  struct feed_verdict verdicts[2] = {{FEED_DOWN, 1, reason}, {FEED_NONE, 0, NULL}};
  memset(reason, 'x', sizeof reason - 1);
  int bad = subscribe();
  expect_line(bad, "{\"t\":\"hello\"");
  for (size_t i = 0; i < FEED_BACKLOG / sizeof reason; i++)
    feed_change(feed, 1, verdicts);
  json_t *json = feed_json(feed);
  cr_expect_eq(json_integer_value(json_object_get(json, "subscribers")), 0);
  json_decref(json);
  close(bad);
}

Test(feed, socket_in_use_is_left_alone) {
  const struct feed_source source = {&subjects, snapshot, NULL};
  char why[FEED_WHY] = "";
  struct stat st;
  cr_expect(!feed_open(&loop, path, &source, why));
  cr_expect(strstr(why, path), "%s", why);
  cr_assert(stat(path, &st) == 0);
  cr_expect_eq(st.st_mode & 0777, 0660);
}
