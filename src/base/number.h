/* Numbers to and from text with '.' as the decimal point, whatever the locale. */
#ifndef QKV_BASE_NUMBER_H
#define QKV_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The whole of text[0..length-1] must be the number; inf and nan are accepted by the real ones. */
bool qkv_parse_real(const char *text, size_t length, double *value);
bool qkv_parse_int(const char *text, size_t length, int64_t *value);
bool qkv_parse_uint(const char *text, size_t length, uint64_t *value);

/* Shortest text that reads back to the same double / float; returns its length. size >= 32. */
size_t qkv_print_real(double value, char *text, size_t size);
size_t qkv_print_float(float value, char *text, size_t size);

/* As people write it, for messages: 100 and 0.00001, where the shortest text is 1e+02 and 1e-05. Below a millionth and from 1e15 on
 * 1e-16 and 1e30. */
typedef struct qkv_number {
    char s[40];
} qkv_number;
qkv_number qkv_plain(double value);

#endif
