/* What a file is that is not UTF-8 text, by its first line. */
#ifndef QKV_DATA_SNIFF_H
#define QKV_DATA_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if the first line cannot be meant as a row of text; `what` then says what it looks like: "UTF-16 text ...",
 * "a zip archive", "binary data ...". NUL bytes and invalid UTF-8 inside a row's text are no reason. */
bool qkv_sniff(const char *line, int64_t length, char *what, size_t size);

#endif
