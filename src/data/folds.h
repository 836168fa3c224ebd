/* Parts of a table of rows, without a copy of their bytes. */
#ifndef QKV_DATA_FOLDS_H
#define QKV_DATA_FOLDS_H

#include "data/table.h"

/* A table with rows of its own, in the same order, whose bytes are those of `table`, which must outlive it: all rows (`fold` NULL),
 * those with fold[i] == which, or those with any other (inside false). What counts rows and hashes them is of the rows that are
 * there. */
qkv_status qkv_table_view(const qkv_table *table, const int32_t *fold, int32_t which, bool inside, qkv_table *view) QKV_MUST_USE;

/* Deals the rows to `count` folds: fold[table->count]. Keyed by the hashes of the texts, so the order of the rows does not matter.
 * Rows with the same text land together; each label (where rows have several: each set of them) is spread as evenly as that allows,
 * and so are the rows. QKV_BAD_DATA where there are fewer different texts than folds. */
qkv_status qkv_table_deal(const qkv_table *table, int64_t count, uint64_t seed, int32_t *fold) QKV_MUST_USE;

/* What it holds. */
int64_t qkv_table_bytes(const qkv_table *table);

#endif
