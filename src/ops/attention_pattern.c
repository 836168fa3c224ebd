#include "ops/attention_pattern.h"

#include <stddef.h>

#include "base/rng.h"
#include "kernels/cost.h"
#include "ops/split.h"

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
static int64_t modulo(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

/* ---- global tokens ---- */

int64_t qkv_globals_below(const qkv_seen *s, int64_t x) {
    const qkv_pattern *p = s->pattern;
    if (x > s->n_k) x = s->n_k;
    if (x <= 0) return 0;
    if (p->global_offset) {
        int64_t lo = p->global_offset[s->sequence], hi = p->global_offset[s->sequence + 1], from = lo;
        while (lo < hi) {
            int64_t middle = lo + (hi - lo) / 2;
            if (p->global_at[middle] < x) lo = middle + 1;
            else hi = middle;
        }
        return lo - from;
    }
    int64_t first = min64(p->global_first, x);
    return p->global_every > 0 && x > first ? first + qkv_chunks(x, p->global_every) - qkv_chunks(first, p->global_every) : first;
}

int64_t qkv_global_at(const qkv_seen *s, int64_t g) {
    const qkv_pattern *p = s->pattern;
    if (p->global_offset) return p->global_at[p->global_offset[s->sequence] + g];
    int64_t first = min64(p->global_first, s->n_k);
    return g < first ? g : (qkv_chunks(first, p->global_every) + g - first) * p->global_every;
}

/* ---- residue classes ---- */

static int64_t shift_of(const qkv_seen *s) { return s->n_k - s->n_q; }

qkv_residue qkv_residue_of(const qkv_seen *s, int64_t class) {
    const int64_t step = qkv_dilation(s->pattern), first = modulo(class - shift_of(s), step);
    return (qkv_residue){first, first < s->n_q ? (s->n_q - 1 - first) / step + 1 : 0, class < s->n_k ? (s->n_k - 1 - class) / step + 1 : 0};
}

/* Numbers below x whose residue is below `class`. */
static int64_t below(int64_t x, int64_t step, int64_t class) { return floor_div(x, step) * class + min64(modulo(x, step), class); }

int64_t qkv_residues_below(const qkv_seen *s, int64_t class) {
    const int64_t step = qkv_dilation(s->pattern);
    return below(s->n_k, step, class) - below(shift_of(s), step, class);
}

/* ---- random blocks ---- */

/* Of a block of queries, the first and the last block of keys that a window of it reaches; first > last: none. */
static void reach(const qkv_seen *s, int64_t block, int64_t *first, int64_t *last) {
    const int64_t size = s->pattern->block, blocks = qkv_chunks(s->n_k, size);
    *first = s->left < 0 ? 0 : max64(0, floor_div(block * size - s->left, size));
    *last = s->right < 0 ? blocks - 1 : min64(blocks - 1, floor_div(block * size + size - 1 + s->right, size));
    *first = min64(*first, blocks);
    *last = max64(*last, *first - 1);
}

/* Floyd's way of drawing without replacement (Bentley & Floyd 1987), from the blocks that no window of the block reaches. Ascending. */
static int64_t draw_blocks(const qkv_seen *s, int64_t block, int64_t *drawn) {
    const qkv_pattern *p = s->pattern;
    int64_t first, last, count = 0;
    reach(s, block, &first, &last);
    const int64_t after = s->right == 0 ? 0 : qkv_chunks(s->n_k, p->block) - 1 - last, candidates = first + after;
    const int64_t wanted = min64(p->random_blocks, candidates);
    for (int64_t j = candidates - wanted; j < candidates; j++) {
        int64_t x = (int64_t)qkv_below(qkv_key4(p->seed, (uint64_t)s->n_k, (uint64_t)block, (uint64_t)j), (uint64_t)j + 1), at = 0;
        for (int64_t i = 0; i < count; i++)
            if (drawn[i] == x) x = j;
        while (at < count && drawn[at] < x) at++;
        for (int64_t i = count; i > at; i--) drawn[i] = drawn[i - 1];
        drawn[at] = x;
        count++;
    }
    for (int64_t i = 0; i < count; i++)
        if (drawn[i] >= first) drawn[i] += last - first + 1;
    return count;
}

/* ---- groups of queries ---- */

/* Rows of one group, where all queries have the same further keys. A multiple of what the tiles take. */
enum { GROUP_ROWS = 960 };

/* The classes in three runs, in each of which all have equally many queries, and so `groups` / (to - from) groups. */
typedef struct alike {
    int64_t from, to, groups;
} alike;

static alike alike_of(const qkv_seen *s, int run) {
    const int64_t step = qkv_dilation(s->pattern), a = modulo(shift_of(s), step), b = s->n_k % step;
    const int64_t edges[] = {0, min64(a, b), max64(a, b), step};
    alike r = {.from = edges[run], .to = edges[run + 1]};
    if (r.from < r.to) r.groups = (r.to - r.from) * qkv_chunks(qkv_residue_of(s, r.from).n_q, GROUP_ROWS);
    return r;
}

static int64_t first_block(const qkv_seen *s) { return floor_div(shift_of(s), s->pattern->block); }

int64_t qkv_groups(const qkv_seen *s) {
    if (s->n_q == 0 || s->n_k == 0) return 0;
    if (s->pattern->random_blocks > 0) return floor_div(s->n_k - 1, s->pattern->block) - first_block(s) + 1;
    int64_t groups = 0;
    for (int i = 0; i < 3; i++) groups += alike_of(s, i).groups;
    return groups;
}

qkv_group qkv_group_of(const qkv_seen *s, int64_t group) {
    const qkv_pattern *p = s->pattern;
    if (p->random_blocks > 0) {
        const int64_t block = first_block(s) + group, from = max64(block * p->block, shift_of(s)), to = min64((block + 1) * p->block, s->n_k);
        return (qkv_group){.first = from - shift_of(s), .rows = to - from, .step = 1, .block = block};
    }
    const int64_t step = qkv_dilation(p);
    for (int i = 0; i < 3; i++) {
        const alike run = alike_of(s, i);
        if (group >= run.groups) {
            group -= run.groups;
            continue;
        }
        const int64_t each = run.groups / (run.to - run.from), class = run.from + group / each;
        const qkv_residue r = qkv_residue_of(s, class);
        const qkv_range rows = qkv_chunk_range(r.n_q, GROUP_ROWS, group % each);
        return (qkv_group){.class = class, .first = r.first + rows.from * step, .rows = rows.to - rows.from, .step = step};
    }
    return (qkv_group){.step = 1};
}

int64_t qkv_group_most(const qkv_seen *s) {
    const qkv_pattern *p = s->pattern;
    return min64(s->n_k, qkv_globals(s) + min64(p->random_blocks, qkv_chunks(s->n_k, p->block > 0 ? p->block : 1)) * p->block);
}

static qkv_range block_range(const qkv_seen *s, int64_t block) { return qkv_chunk_range(s->n_k, s->pattern->block, block); }

int64_t qkv_group_keys(const qkv_seen *s, const qkv_group *g) {
    int64_t drawn[QKV_RANDOM_BLOCKS_MAX], keys = qkv_globals(s);
    const int64_t count = s->pattern->random_blocks > 0 ? draw_blocks(s, g->block, drawn) : 0;
    for (int64_t i = 0; i < count; i++) {
        const qkv_range b = block_range(s, drawn[i]);
        keys += b.to - b.from - (qkv_globals_below(s, b.to) - qkv_globals_below(s, b.from));
    }
    return keys;
}

/* Global tokens and drawn blocks, merged. */
static int64_t merged_list(const qkv_seen *s, const qkv_group *g, int32_t *list) {
    int64_t drawn[QKV_RANDOM_BLOCKS_MAX], keys = 0, at = 0;
    const int64_t globals = qkv_globals(s), count = s->pattern->random_blocks > 0 ? draw_blocks(s, g->block, drawn) : 0;
    for (int64_t i = 0; i < count; i++) {
        const qkv_range b = block_range(s, drawn[i]);
        for (; at < globals && qkv_global_at(s, at) < b.to; at++)
            if (qkv_global_at(s, at) < b.from) list[keys++] = (int32_t)qkv_global_at(s, at);
        for (int64_t k = b.from; k < b.to; k++) list[keys++] = (int32_t)k;
    }
    for (; at < globals; at++) list[keys++] = (int32_t)qkv_global_at(s, at);
    return keys;
}

int64_t qkv_group_list(const qkv_seen *s, const qkv_group *g, int32_t *list) {
    const int64_t step = g->step;
    if (step == 1) return merged_list(s, g, list);
    const int64_t globals = qkv_globals(s);
    int64_t keys = 0;
    for (int64_t i = 0; i < globals; i++)
        if (qkv_global_at(s, i) % step == g->class) list[keys++] = (int32_t)qkv_global_at(s, i);
    for (int64_t i = 0; i < globals; i++) {
        const int64_t at = qkv_global_at(s, s->right == 0 ? globals - 1 - i : i);
        if (at % step != g->class) list[keys++] = (int32_t)at;
    }
    return keys;
}

/* The first element of list[from..to-1], ascending, that is at least x. */
static int64_t lower_bound(const int32_t *list, int64_t from, int64_t to, int64_t x) {
    while (from < to) {
        const int64_t middle = from + (to - from) / 2;
        if (list[middle] < x) from = middle + 1;
        else to = middle;
    }
    return from;
}

void qkv_group_hole(const qkv_seen *s, const qkv_group *g, const int32_t *list, int64_t keys, int64_t position, int32_t *hole) {
    hole[0] = 0;
    hole[1] = (int32_t)keys;
    if (qkv_is_global(s, position)) return;
    int64_t own = keys; /* keys of the class of the query */
    if (g->step > 1)
        for (own = 0; own < keys && list[own] % g->step == g->class;) own++;
    const int64_t all = s->n_q + s->n_k, left = min64(s->left, all) * g->step, right = min64(s->right, all) * g->step;
    if (s->left >= 0) hole[0] = (int32_t)lower_bound(list, 0, own, position - left);
    if (s->right > 0) hole[1] = (int32_t)lower_bound(list, hole[0], own, position + right + 1);
    else if (s->right < 0) hole[1] = (int32_t)own;
    else /* what stands to the right is hidden: the end of the own keys, and the beginning of the others */
        for (hole[1] = (int32_t)own; hole[1] < keys && list[hole[1]] > position;) hole[1]++;
}

/* ---- counting ---- */

/* Multiples of k among x, x + step, ..., before `end`; x >= 0. One in k / gcd(k, step) is, or none: that many are looked at. */
static int64_t multiples_among(int64_t x, int64_t end, int64_t step, int64_t k) {
    if (x >= end || k == 0) return 0;
    if (k > end) k = end;
    int64_t common = k, rest = step, looked = 0;
    while (rest > 0) {
        const int64_t next = common % rest;
        common = rest;
        rest = next;
    }
    for (; looked < k / common && x < end && x % k != 0; looked++) x += step;
    return looked < k / common && x < end ? (end - 1 - x) / (k / common * step) + 1 : 0;
}

/* Global tokens at x, x + step, ..., before `end`. */
static int64_t globals_among(const qkv_seen *s, int64_t x, int64_t end, int64_t step) {
    if (step == 1) return x < end ? qkv_globals_below(s, end) - qkv_globals_below(s, x) : 0;
    if (x < 0) x += qkv_chunks(-x, step) * step;
    end = min64(end, s->n_k);
    int64_t count = 0;
    if (s->pattern->global_offset) {
        for (; x < end; x += step) count += qkv_is_global(s, x);
        return count;
    }
    const int64_t first = min64(s->pattern->global_first, end);
    if (x < first) {
        count = qkv_chunks(first - x, step);
        x += count * step;
    }
    return count + multiples_among(x, end, step, s->pattern->global_every);
}

/* Queries that are not global and have a key at `at` in their window. */
static int64_t rows_around(const qkv_seen *s, int64_t at) {
    const int64_t step = qkv_dilation(s->pattern), all = s->n_q + s->n_k, least = shift_of(s);
    int64_t from = s->right < 0 ? at - (at - least) / step * step : at - min64(s->right, all) * step;
    int64_t to = s->left < 0 ? s->n_k : min64(s->n_k, at + min64(s->left, all) * step + 1);
    if (from < least) from += qkv_chunks(least - from, step) * step;
    if (from >= to) return 0;
    return (to - 1 - from) / step + 1 - globals_among(s, from, to, step);
}

/* Pairs of queries that are not global with global keys outside their windows. */
static int64_t pairs_to_globals(const qkv_seen *s) {
    const int64_t globals = qkv_globals(s), rows = s->n_q - (globals - qkv_globals_before(s));
    int64_t pairs = 0;
    for (int64_t g = 0; g < globals; g++) {
        const int64_t at = qkv_global_at(s, g);
        int64_t may = rows;
        if (s->right == 0) { /* those after it */
            const int64_t from = max64(at + 1, shift_of(s));
            may = max64(0, s->n_k - from) - (globals - qkv_globals_below(s, from));
        }
        pairs += may - rows_around(s, at);
    }
    return pairs;
}

/* What the window shows to the global query at `at`. */
static int64_t window_keys(const qkv_seen *s, int64_t at) {
    const int64_t step = qkv_dilation(s->pattern), all = s->n_q + s->n_k;
    const int64_t before = at / step, after = (s->n_k - 1 - at) / step;
    return 1 + (s->left < 0 ? before : min64(before, min64(s->left, all))) + (s->right < 0 ? after : min64(after, min64(s->right, all)));
}

/* Pairs of global queries that their windows do not have. */
static int64_t pairs_of_globals(const qkv_seen *s) {
    const int64_t globals = qkv_globals(s);
    int64_t pairs = 0;
    for (int64_t g = qkv_globals_before(s); g < globals; g++) {
        const int64_t at = qkv_global_at(s, g);
        pairs += (s->right == 0 ? at + 1 : s->n_k) - window_keys(s, at);
    }
    return pairs;
}

static int64_t pairs_of_random(const qkv_seen *s) {
    const int64_t groups = qkv_groups(s), globals = qkv_globals(s), shift = shift_of(s);
    int64_t pairs = 0;
    for (int64_t i = 0; i < groups; i++) {
        const qkv_group g = qkv_group_of(s, i);
        const int64_t from = g.first + shift, rows = g.rows - globals_among(s, from, from + g.rows, 1);
        pairs += rows * (qkv_group_keys(s, &g) - globals);
    }
    return pairs;
}

int64_t qkv_pattern_pairs(const qkv_seen *s) {
    int64_t pairs = 0;
    for (int64_t c = 0; c < qkv_dilation(s->pattern); c++) {
        const qkv_residue r = qkv_residue_of(s, c);
        pairs += qkv_span_pairs(r.n_q, r.n_k, s->left, s->right);
    }
    if (s->n_q == 0 || s->n_k == 0 || qkv_sees_all(s->pattern, s->left, s->right)) return pairs;
    if (qkv_has_globals(s->pattern)) pairs += pairs_to_globals(s) + pairs_of_globals(s);
    if (s->pattern->random_blocks > 0) pairs += pairs_of_random(s);
    return pairs;
}
