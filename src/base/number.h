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

#endif
