/* Lists of the global tokens of batches that are made by hand (train/gather makes those of data), and the tokens that users name.
 */
#ifndef QKV_MODELS_GLOBALS_H
#define QKV_MODELS_GLOBALS_H

#include "models/config.h"
#include "ops/exec.h"
#include "qkv/options.h"
#include "qkv/tokenizer.h"

/* After the segments of the batch, if it has any. One block: qkv_free batch->global_offset. Nothing where the config has no such
 * lists. Without ids only those are in it that are told by their places. */
qkv_status qkv_batch_list_globals(qkv_ctx *ctx, const qkv_config *config, qkv_batch *batch) QKV_MUST_USE;

/* What a user writes: tokens with spaces between, \n \t \s \\ for a line feed, a tab, a space and a backslash in one, <sep> for
 * what parts the texts of a pair. `count` of them, and whether <sep> is among
 * them; refuses what is no such list. */
qkv_status qkv_global_tokens_count(qkv_ctx *ctx, const char *text, int64_t *count, bool *separator) QKV_MUST_USE;
/* The ids that the tokenizer has for them: of each as it stands at the beginning of a text, and behind a space. A text of more
 * pieces is refused, and they are named. */
qkv_status qkv_global_tokens_find(qkv_ctx *ctx, const qkv_tokenizer *tokenizer, const char *text, qkv_numbers *ids) QKV_MUST_USE;
/* Always UTF-8: "\n" for a line feed and so on, "<sep>", "\xD0" for a byte that is no character; shortened behind a character
 * where it does not fit. */
void qkv_global_token_print(const qkv_tokenizer *tokenizer, int32_t id, char *text, size_t size);

#endif
