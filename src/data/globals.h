/* Which tokens of a text are global, where that is told by what they are or where they stand. */
#ifndef QKV_DATA_GLOBALS_H
#define QKV_DATA_GLOBALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"

enum { QKV_NUMBERS_MOST = 16 };
/* A few numbers, ascending, each once. */
typedef struct qkv_numbers {
    int64_t count;
    int64_t at[QKV_NUMBERS_MOST];
} qkv_numbers;

/* Global are the first so many tokens; tokens 0, every, 2 * every, ...; those at some places; those of some ids; and where
 * `question` is set the first text of a pair, with the SEP behind it. */
typedef struct qkv_global_rule {
    int64_t first, every;
    qkv_numbers places, tokens;
    bool question;
} qkv_global_rule;

/* Are they told by more than the first two? Then batches have lists of them. */
static inline bool qkv_globals_listed(const qkv_global_rule *g) {
    return g->places.count > 0 || g->tokens.count > 0 || g->question;
}
/* Are they told by what tokens are? */
static inline bool qkv_globals_read(const qkv_global_rule *g) {
    return g->tokens.count > 0 || g->question;
}

/* The places of those of `n` tokens, ascending; returns how many, at most n. ids NULL: of what tokens are nothing is known, and
 * only what is told by places is listed. */
int64_t qkv_globals_list(const qkv_global_rule *g, const int32_t *ids, int64_t n, int64_t *list);

/* Adds a number to a list, where it goes. False: there is no room. */
bool qkv_numbers_add(qkv_numbers *numbers, int64_t number);
/* "0,5,17": at most QKV_NUMBERS_MOST whole numbers of 0 to `most`, in any order. False: it is something else. */
bool qkv_numbers_parse(const char *text, int64_t most, qkv_numbers *numbers);
/* The same, refused in words: `name` is the option's. */
qkv_status qkv_numbers_check(qkv_ctx *ctx, const char *name, const char *text, int64_t most) QKV_MUST_USE;

#endif
