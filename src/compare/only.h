/* Which measurements of an experiment are asked for, by their names. */
#ifndef QKV_COMPARE_ONLY_H
#define QKV_COMPARE_ONLY_H

#include <stdbool.h>

/* Does `words` stand in the name, as whole words: 'seed 1' is no part of 'seed 10'. Upper case is lower case, and "2,048" is "2048". A
 * text of white space alone stands in none. */
bool qkv_only_names(const char *words, const char *name);

#endif
