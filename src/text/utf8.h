/* UTF-8, strictly (Unicode 15, table 3-7): no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef QKV_TEXT_UTF8_H
#define QKV_TEXT_UTF8_H

#include <stdint.h>

/* Decodes the code point at text[0..length-1] (length >= 1); returns its bytes, or minus the number of bytes that are to
 * be replaced as one bad sequence ("maximal subpart"), with *cp = 0xFFFD. */
int qkv_utf8_next(const char *text, int64_t length, int32_t *cp);
int qkv_utf8_put(int32_t cp, char out[4]); /* number of bytes, 1..4 */
/* Number of bad sequences plus NULs. */
int64_t qkv_utf8_faults(const char *text, int64_t length);

#endif
