/* SPDX-License-Identifier: Apache-2.0 */
/* Files of images, small and large enough for several threads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "zones/image_read.h"

enum { UNCOVERED = 24, LARGE = (41 << 20) + 4711 };

struct file {
  int fd;
  size_t size;
  uint8_t *data;
};

static struct file make_file(size_t size) {
  struct file file = {.fd = memfd_create("image", MFD_CLOEXEC), .size = size};
  uint64_t state = 1;
  file.data = malloc(size + 1);
  cr_assert(file.fd >= 0 && file.data);
  for (size_t i = 0; i < size; i++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    file.data[i] = (uint8_t)(state >> 56);
  }
  for (size_t at = 0; at < size;) {
    ssize_t n = write(file.fd, file.data + at, size - at);
    cr_assert(n > 0);
    at += (size_t)n;
  }
  return file;
}

static void close_file(struct file *file) {
  close(file->fd);
  free(file->data);
}

static void expect_read(size_t size) {
  struct file file = make_file(size);
  uint8_t *to = calloc(1, size + 1);
  uint64_t checksum = 0;
  cr_assert(to);
  cr_assert(image_read_file(file.fd, to, size, UNCOVERED, &checksum), "%zu octets", size);
  cr_expect(memcmp(to, file.data, size) == 0, "%zu octets", size);
  cr_expect_eq(checksum, XXH3_64bits(file.data + UNCOVERED, size - UNCOVERED), "%zu octets", size);
  free(to);
  close_file(&file);
}

Test(image_read, whole_files) {
  expect_read(UNCOVERED);
  expect_read(UNCOVERED + 1);
  expect_read((1 << 20) + 1);
  expect_read(LARGE);
  expect_read(48 << 20); /* whole shares */
}

/* It may be truncated between the look at its size and the reading. */
Test(image_read, a_file_that_became_shorter) {
  static const size_t sizes[] = {1000, LARGE, 48 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct file file = make_file(sizes[i]);
    static const size_t missing[] = {1, 900};
    for (size_t k = 0; k < 2; k++) {
      uint8_t *to = malloc(sizes[i]);
      uint64_t checksum = 0;
      cr_assert(to && ftruncate(file.fd, (off_t)(sizes[i] - missing[k])) == 0);
      cr_expect_not(image_read_file(file.fd, to, sizes[i], UNCOVERED, &checksum));
      cr_expect_eq(errno, EIO);
      free(to);
    }
    close_file(&file);
  }
}

Test(image_read, a_file_that_cannot_be_read) {
  static uint8_t to[LARGE];
  uint64_t checksum = 0;
  cr_expect_not(image_read_file(-1, to, 1000, UNCOVERED, &checksum));
  cr_expect_eq(errno, EBADF);
  cr_expect_not(image_read_file(-1, to, LARGE, UNCOVERED, &checksum));
  cr_expect_eq(errno, EBADF);
}
