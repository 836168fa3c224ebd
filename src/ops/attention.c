#include "ops/attention.h"

#include <math.h>

#include "base/par.h"
#include "kernels/bf16.h"
#include "kernels/cost.h"
#include "ops/split.h"

/* Multiply-adds worth a chunk of their own. */
static const double CHUNK_WORK = 2e6;

/* The unit of work a chunk starts with; it ends where the next chunk starts. Order: sequence, part, head. Parts of a sequence:
 * blocks of query rows forward; one backward, or, where there are few heads, its key tiles. */
typedef struct unit {
    int64_t sequence, part, head;
} unit;

typedef struct job {
    const qkv_kernels *kernels;
    const qkv_bf16_kernels *bf16; /* NULL: f32 */
    const qkv_attention_shape *s;
    qkv_heads q, k, v, o, d_o, dq, dk, dv;
    real *lse;
    int64_t q_rows, most_q, most_k;
    bool backward, split;
    int64_t decode;      /* key/value heads that are computed together, as no sequence has more than one query; 0: it is not so */
    int64_t unit_heads;  /* units of a part: query heads forward, key/value heads backward, groups of these in decoding */
    const unit *starts;  /* [chunks + 1] */
    int64_t chunks, threads;
    real *scratch;
    int64_t scratch_size; /* reals a thread */
    /* Backward, split: what the key tiles of a head share, and how many of them each block of queries has seen; of the
     * first query head of a sequence at shared_at, blocks_at. */
    real *shared;
    qkv_par_counter *seen;
    int64_t *shared_at, *blocks_at;
    real *bias;       /* [heads][bias_row], by distance from -(most_k - 1) on, in units of log2 */
    int64_t bias_row;
    real *bias_parts; /* [key tiles of all sequences][heads][2 bias_reach + 1] */
    int64_t *tiles_at; /* [sequences + 1] */
} job;

static int64_t q_from(const qkv_attention_shape *s, int64_t i) { return s->q_offset ? s->q_offset[i] : i; }
static int64_t n_queries(const qkv_attention_shape *s, int64_t i) { return q_from(s, i + 1) - q_from(s, i); }
static int64_t n_keys(const qkv_attention_shape *s, int64_t i) { return s->k_offset[i + 1] - s->k_offset[i]; }

static qkv_status check(const qkv_exec *x, const qkv_attention_shape *s) {
    if (s->sequences < 0 || s->dim < 1 || s->value_dim < 1 || s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads != 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention over %lld sequences with heads=%lld kv_heads=%lld dim=%lld value_dim=%lld",
                        (long long)s->sequences, (long long)s->heads, (long long)s->kv_heads, (long long)s->dim, (long long)s->value_dim);
    if (s->sequences > 0 && (!s->k_offset || q_from(s, 0) != 0 || s->k_offset[0] != 0))
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention offsets do not start at 0");
    for (int64_t i = 0; i < s->sequences; i++)
        if (n_queries(s, i) < 0 || n_keys(s, i) < 0)
            return qkv_fail(x->ctx, QKV_INTERNAL, "attention offsets descend at sequence %lld", (long long)i);
    if (!x->plan && s->dropout.p > 0 && !s->dropout.row_key && q_from(s, s->sequences) > 0)
        return qkv_fail(x->ctx, QKV_INTERNAL, "attention dropout of %g without row keys", (double)s->dropout.p);
    if (s->rope_cos && (!s->rope_sin || s->rope_dim < 2 || s->rope_dim % 2 != 0 || s->rope_dim > s->dim || s->rope_offset < 0))
        return qkv_fail(x->ctx, QKV_INTERNAL, "rotation of %lld of %lld columns from position %lld on", (long long)s->rope_dim,
                        (long long)s->dim, (long long)s->rope_offset);
    for (int64_t i = 0; s->rope_cos && i < s->sequences; i++)
        if (s->rope_offset + n_keys(s, i) < n_queries(s, i))
            return qkv_fail(x->ctx, QKV_INTERNAL, "sequence %lld has queries before position 0", (long long)i);
    if (s->bias && s->bias_reach < 0) return qkv_fail(x->ctx, QKV_INTERNAL, "attention bias up to distance %lld", (long long)s->bias_reach);
    return QKV_OK;
}

/* ---- cutting into chunks ---- */

static int64_t key_tiles(int64_t n_k) { return qkv_chunks(n_k, QKV_ATTEND_KEYS); }

/* Rows of a forward unit. Each packs the keys it sees anew, so a head is cut only where there are few of them, and where it
 * sees a window: then what is packed should stay in the cache. Multiples of 6: blocks of rows are the same as uncut. */
static int64_t row_block(const qkv_attention_shape *s, int64_t n_q) {
    enum { UNITS = 16, ROWS = 960, LEAST_ROWS = 480 };
    int64_t units = s->sequences * s->heads, parts = (UNITS + units - 1) / units;
    bool narrow = s->left >= 0 && s->right >= 0 && s->left < 4 * ROWS && s->right < 4 * ROWS - s->left;
    int64_t rows = narrow && s->left + s->right < LEAST_ROWS ? LEAST_ROWS : ROWS; /* of a window */
    if (parts > n_q / ROWS) parts = n_q / ROWS;
    if (parts * units < 4) parts = n_q / LEAST_ROWS;
    if (narrow && parts < n_q / rows) parts = n_q / rows;
    if (parts < 2) return n_q > 0 ? n_q : 1;
    return (n_q + 6 * parts - 1) / (6 * parts) * 6;
}

static int64_t parts_of(const job *j, int64_t i) {
    int64_t n_q = n_queries(j->s, i), parts = 1;
    if (!j->backward) parts = qkv_chunks(n_q, row_block(j->s, n_q));
    else if (j->split && n_q > 0) parts = key_tiles(n_keys(j->s, i));
    return parts > 0 ? parts : 1;
}

/* Walks all units and closes a chunk when it has gathered enough work. Returns their number; fills starts if not NULL. */
static int64_t cut(const job *j, unit *starts) {
    const qkv_attention_shape *s = j->s;
    int64_t chunks = 0, width = s->dim + s->value_dim;
    double gathered = 0, work = (j->backward ? 2.5 * (double)(s->heads / s->kv_heads) : 1) * (double)width;
    for (int64_t i = 0; i < s->sequences; i++) {
        int64_t n_q = n_queries(s, i), n_k = n_keys(s, i), parts = parts_of(j, i);
        double pairs = (double)qkv_span_pairs(n_q, n_k, s->left, s->right) / (double)parts;
        double unit_work = pairs * work + 8.0 * (double)(n_k + n_q) * (double)width;
        if (j->decode) unit_work *= (double)s->heads / (double)j->unit_heads;
        for (int64_t u = 0; u < parts * j->unit_heads; u++) {
            if (gathered == 0) {
                if (starts) starts[chunks] = (unit){i, u / j->unit_heads, u % j->unit_heads};
                chunks++;
            }
            gathered += unit_work + 1;
            if (gathered >= CHUNK_WORK) gathered = 0;
        }
    }
    if (starts) starts[chunks] = (unit){s->sequences, 0, 0};
    return chunks;
}

static bool unit_before(unit a, unit b) {
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    if (a.part != b.part) return a.part < b.part;
    return a.head < b.head;
}

static unit unit_next(const job *j, unit u) {
    if (++u.head < j->unit_heads) return u;
    u.head = 0;
    if (++u.part < parts_of(j, u.sequence)) return u;
    return (unit){u.sequence + 1, 0, 0};
}

/* What a thread will most likely compute after u: threads take chunks in turn. False: nothing. Only for what is fetched ahead. */
static bool unit_expected(const job *j, int64_t chunk, unit u, unit *next) {
    *next = unit_next(j, u);
    if (unit_before(*next, j->starts[chunk + 1])) return true;
    if (chunk + j->threads >= j->chunks) return false;
    *next = j->starts[chunk + j->threads];
    return true;
}

/* ---- memory, from the top of the arena ---- */

/* Where there are few heads, the key tiles of each are units; what they share is laid out here. */
static qkv_status prepare_split(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    enum { FEW = 8 };
    j->split = j->backward && !j->bf16 && s->sequences * s->kv_heads < FEW && j->most_k > QKV_ATTEND_KEYS;
    if (!j->split) return QKV_OK;
    int64_t shared = 0, blocks = 0, at[FEW + 1][2];
    for (int64_t i = 0; i < s->sequences; i++) {
        at[i][0] = shared;
        at[i][1] = blocks;
        shared += s->heads * j->kernels->attend_shared_scratch(n_queries(s, i), s->dim, s->value_dim);
        blocks += s->heads * j->kernels->attend_blocks(n_queries(s, i));
    }
    qkv_mat memory;
    QKV_TRY(qkv_temp(x, 1, shared, &memory));
    QKV_TRY(qkv_temp_array(x, blocks, sizeof *j->seen, &j->seen));
    QKV_TRY(qkv_temp_array(x, s->sequences, sizeof(int64_t), &j->shared_at));
    QKV_TRY(qkv_temp_array(x, s->sequences, sizeof(int64_t), &j->blocks_at));
    j->shared = memory.p;
    if (x->plan) return QKV_OK;
    for (int64_t i = 0; i < blocks; i++) j->seen[i] = (qkv_par_counter){0};
    for (int64_t i = 0; i < s->sequences; i++) {
        j->shared_at[i] = at[i][0];
        j->blocks_at[i] = at[i][1];
    }
    return QKV_OK;
}

/* The bias by distance, as far as the longest sequence goes, and room for its gradient. */
static qkv_status prepare_bias(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    const real log2e = (real)1.44269504088896340736;
    int64_t reach = s->bias_reach, wide = 2 * reach + 1;
    qkv_mat rows, parts;
    if (!s->bias) return QKV_OK;
    j->bias_row = j->most_k + j->most_q + 16;
    QKV_TRY(qkv_temp(x, s->heads, j->bias_row, &rows));
    j->bias = rows.p;
    if (!x->plan)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t e = 0; e < j->bias_row; e++) {
                int64_t distance = e - (j->most_k - 1), c = distance < -reach ? -reach : distance > reach ? reach : distance;
                rows.p[h * j->bias_row + e] = s->bias[h * wide + c + reach] * log2e;
            }
    if (!j->backward || !s->bias_grad) return QKV_OK;
    int64_t tiles = 0;
    for (int64_t i = 0; i < s->sequences; i++) tiles += key_tiles(n_keys(s, i));
    QKV_TRY(qkv_temp(x, tiles * s->heads, wide, &parts));
    QKV_TRY(qkv_temp_array(x, s->sequences + 1, sizeof(int64_t), &j->tiles_at));
    j->bias_parts = parts.p;
    for (int64_t i = 0; !x->plan && i <= s->sequences; i++) j->tiles_at[i] = i ? j->tiles_at[i - 1] + key_tiles(n_keys(s, i - 1)) : 0;
    return QKV_OK;
}

/* With one query a sequence everything is read once, and rounding it would cost more than the products; rotations and biases
 * by distance are terms of the f32 kernels alone. */
static const qkv_bf16_kernels *bf16_of(const qkv_exec *x, const qkv_attention_shape *s) {
    return x->bf16 && s->q_offset && !s->rope_cos && !s->bias ? x->ctx->bf16 : NULL;
}

/* Heads of one query each are computed together: then each row of keys and values is read along. Fewer at a time where there are
 * few sequences, so that there is something to share out. */
static int64_t decode_heads(const job *j) {
    const qkv_attention_shape *s = j->s;
    enum { MANY = 8, FEW = 4 };
    if (j->backward || j->most_q != 1 || s->rope_cos || s->value_dim % 16 != 0) return 0;
    int64_t most = s->sequences * s->kv_heads < MANY * MANY ? FEW : MANY, fit = QKV_ATTEND_DECODE_HEADS / (s->heads / s->kv_heads);
    if (most > fit) most = fit > 0 ? fit : 1;
    if (s->sequences == 1 && most > (s->kv_heads + 1) / 2) most = (s->kv_heads + 1) / 2;
    return most < s->kv_heads ? most : s->kv_heads;
}

static int64_t scratch_of(const job *j, int64_t n_q, int64_t n_k) {
    const qkv_attention_shape *s = j->s;
    if (j->decode) return j->kernels->attend_decode_scratch(j->decode * (s->heads / s->kv_heads), s->dim, s->value_dim);
    if (j->bf16) return (j->backward ? j->bf16->attend_backward_scratch : j->bf16->attend_forward_scratch)(n_q, n_k, s->dim, s->value_dim);
    int64_t size = (j->backward ? j->kernels->attend_backward_scratch : j->kernels->attend_forward_scratch)(n_q, n_k, s->dim, s->value_dim);
    return j->split ? size - j->kernels->attend_shared_scratch(n_q, s->dim, s->value_dim) : size;
}

/* Chunk table and scratch for every thread. */
static qkv_status prepare(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    j->kernels = x->ctx->kernels;
    j->threads = x->ctx->threads;
    j->bf16 = bf16_of(x, s);
    unit *starts;
    qkv_mat scratch;
    int64_t most = 0;
    j->q_rows = s->sequences > 0 ? q_from(s, s->sequences) : 0;
    j->unit_heads = j->backward ? s->kv_heads : s->heads;
    for (int64_t i = 0; i < s->sequences; i++) {
        if (n_queries(s, i) > j->most_q) j->most_q = n_queries(s, i);
        if (n_keys(s, i) > j->most_k) j->most_k = n_keys(s, i);
    }
    j->decode = decode_heads(j);
    if (j->decode) {
        j->bf16 = NULL;
        j->unit_heads = qkv_chunks(s->kv_heads, j->decode);
    }
    QKV_TRY(prepare_split(x, j));
    QKV_TRY(prepare_bias(x, j));
    j->chunks = cut(j, NULL);
    QKV_TRY(qkv_temp_array(x, j->chunks + 1, sizeof(unit), &starts));
    if (starts) cut(j, starts);
    for (int64_t i = 0; i < s->sequences; i++) {
        int64_t size = scratch_of(j, n_queries(s, i), n_keys(s, i));
        if (size > most) most = size;
    }
    j->scratch_size = (most + 15) / 16 * 16;
    QKV_TRY(qkv_temp(x, j->chunks > 1 ? x->ctx->threads : 1, j->scratch_size, &scratch));
    j->starts = starts;
    j->scratch = scratch.p;
    return QKV_OK;
}

/* ---- one head of one sequence ---- */

static real *at(qkv_heads m, int64_t row, int64_t head) { return m.p ? m.p + row * m.row + head * m.head : NULL; }

static qkv_attend describe(const job *j, int64_t i, int64_t h) {
    const qkv_attention_shape *s = j->s;
    int64_t q0 = q_from(s, i), k0 = s->k_offset[i], kv = h / (s->heads / s->kv_heads);
    qkv_attend a = {.n_q = n_queries(s, i), .n_k = n_keys(s, i), .dim = s->dim, .value_dim = s->value_dim, .scale = s->scale,
                    .left = s->left, .right = s->right, .softcap = s->softcap, .alibi = s->alibi ? (real)s->alibi[h] : 0,
                    .rope_cos = s->rope_cos, .rope_sin = s->rope_sin, .rope_dim = s->rope_dim, .rope_k = s->rope_offset,
                    .rope_interleaved = s->rope_interleaved};
    a.row1 = a.n_q;
    a.q = at(j->q, q0, h);
    a.q_row = j->q.row;
    a.k = at(j->k, k0, kv);
    a.k_row = j->k.row;
    a.v = at(j->v, k0, kv);
    a.v_row = j->v.row;
    a.o = at(j->o, q0, h);
    a.o_row = j->o.row;
    a.lse = j->lse ? j->lse + h * j->q_rows + q0 : NULL;
    a.bias = j->bias ? j->bias + h * j->bias_row + j->most_k - 1 : NULL;
    a.dropout = s->dropout;
    a.dropout.key = qkv_key2(s->dropout.key, (uint64_t)h);
    if (a.dropout.row_key) a.dropout.row_key += q0;
    if (!j->backward) return a;
    a.d_o = at(j->d_o, q0, h);
    a.do_row = j->d_o.row;
    a.dq = at(j->dq, q0, h);
    a.dq_row = j->dq.row;
    a.dk = at(j->dk, k0, kv);
    a.dk_row = j->dk.row;
    a.dv = at(j->dv, k0, kv);
    a.dv_row = j->dv.row;
    a.add_kv = h % (s->heads / s->kv_heads) > 0;
    a.bias_reach = s->bias_reach;
    if (j->bias_parts) a.bias_grad = j->bias_parts + (j->tiles_at[i] * s->heads + h * key_tiles(a.n_k)) * (2 * s->bias_reach + 1);
    return a;
}

static void fill(real *p, int64_t rows, int64_t cols, int64_t row, real value) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) p[r * row + c] = value;
}

static qkv_attend describe_rows(const job *j, unit u) {
    qkv_attend a = describe(j, u.sequence, u.head);
    qkv_range rows = qkv_chunk_range(a.n_q, row_block(j->s, a.n_q), u.part);
    a.row0 = rows.from;
    a.row1 = rows.to;
    return a;
}

static void forward_rows(const job *j, const qkv_attend *a, real *scratch) {
    if (a->row0 >= a->row1) return;
    if (a->n_k > 0) {
        (j->bf16 ? j->bf16->attend_forward : j->kernels->attend_forward)(a, scratch);
        return;
    }
    fill(a->o + a->row0 * a->o_row, a->row1 - a->row0, a->value_dim, a->o_row, 0);
    if (a->lse) fill(a->lse + a->row0, 1, a->row1 - a->row0, 0, (real)-INFINITY);
}

static void decode_heads_of(const job *j, unit u, real *scratch) {
    int64_t group = j->s->heads / j->s->kv_heads, end = (u.head + 1) * j->decode * group, some;
    if (end > j->s->heads) end = j->s->heads;
    for (int64_t h = u.head * j->decode * group; h < end; h += some) {
        qkv_attend heads[QKV_ATTEND_DECODE_HEADS];
        some = end - h < QKV_ATTEND_DECODE_HEADS ? end - h : QKV_ATTEND_DECODE_HEADS;
        for (int64_t i = 0; i < some; i++) heads[i] = describe(j, u.sequence, h + i);
        if (heads[0].n_q > 0 && heads[0].n_k > 0) j->kernels->attend_decode(heads, some, scratch);
        else
            for (int64_t i = 0; i < some; i++) forward_rows(j, &heads[i], scratch);
    }
}

static void decode_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1]; unit_before(u, end); u = unit_next(j, u))
        decode_heads_of(j, u, j->scratch + thread * j->scratch_size);
}

static void forward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1], following; unit_before(u, end); u = unit_next(j, u)) {
        qkv_attend a = describe_rows(j, u), next;
        if (unit_expected(j, chunk, u, &following)) {
            next = describe_rows(j, following);
            a.next = &next;
        }
        forward_rows(j, &a, j->scratch + thread * j->scratch_size);
    }
}

/* A block of queries of a head goes from key tile to key tile. */
typedef struct handover {
    qkv_par_counter *seen;
    int64_t tile;
} handover;

static void wait_for_block(void *hand, int64_t block) {
    const handover *o = hand;
    qkv_par_wait(&o->seen[block], o->tile);
}
static void block_done(void *hand, int64_t block) {
    const handover *o = hand;
    qkv_par_post(&o->seen[block], o->tile + 1);
}

static void backward_head(const job *j, unit u, qkv_attend *a, int64_t h, real *scratch) {
    handover hand;
    if (a->n_q == 0 || a->n_k == 0) {
        fill(a->dq, a->n_q, a->dim, a->dq_row, 0);
        if (a->add_kv) return;
        fill(a->dk, a->n_k, a->dim, a->dk_row, 0);
        fill(a->dv, a->n_k, a->value_dim, a->dv_row, 0);
        return;
    }
    if (j->split) {
        a->key0 = u.part * QKV_ATTEND_KEYS;
        a->key1 = a->key0 + QKV_ATTEND_KEYS < a->n_k ? a->key0 + QKV_ATTEND_KEYS : a->n_k;
        a->shared = j->shared + j->shared_at[u.sequence] + h * j->kernels->attend_shared_scratch(a->n_q, a->dim, a->value_dim);
        hand = (handover){j->seen + j->blocks_at[u.sequence] + h * j->kernels->attend_blocks(a->n_q), u.part};
        a->wait = wait_for_block;
        a->done = block_done;
        a->hand = &hand;
    }
    (j->bf16 ? j->bf16->attend_backward : j->kernels->attend_backward)(a, scratch);
}

/* All query heads of one key/value head, ascending, so that dk and dv are sums in a fixed order. */
static void backward_chunk(void *arg, int64_t chunk, int thread) {
    const job *j = arg;
    int64_t group = j->s->heads / j->s->kv_heads;
    for (unit u = j->starts[chunk], end = j->starts[chunk + 1], following; unit_before(u, end); u = unit_next(j, u)) {
        bool more = unit_expected(j, chunk, u, &following);
        for (int64_t h = u.head * group; h < (u.head + 1) * group; h++) {
            qkv_attend a = describe(j, u.sequence, h), next;
            bool same = h + 1 < (u.head + 1) * group;
            if (same || more) next = describe(j, same ? u.sequence : following.sequence, same ? h + 1 : following.head * group);
            a.next = same || more ? &next : NULL;
            backward_head(j, u, &a, h, j->scratch + thread * j->scratch_size);
        }
    }
}

/* The gradient of the bias of one head: its parts in order. */
static void bias_chunk(void *arg, int64_t h, int thread) {
    const job *j = arg;
    const qkv_attention_shape *s = j->s;
    int64_t wide = 2 * s->bias_reach + 1;
    real *out = s->bias_grad + h * wide;
    (void)thread;
    fill(out, 1, wide, 0, 0);
    for (int64_t i = 0; i < s->sequences; i++) {
        int64_t tiles = key_tiles(n_keys(s, i));
        if (n_queries(s, i) == 0) continue;
        for (int64_t t = 0; t < tiles; t++) {
            const real *part = j->bias_parts + (j->tiles_at[i] * s->heads + h * tiles + t) * wide;
            for (int64_t c = 0; c < wide; c++) out[c] += part[c];
        }
    }
}

/* ---- the op ---- */

/* ---- what it costs ---- */

/* The multiply-adds that the tiles compute, of one head: a sum of something for each column of queries and keys, something for
 * each of values, and, at bf16, the sums of the rows. */
static double executed(const job *j, int64_t n_q, int64_t n_k, int64_t dim, int64_t value_dim) {
    const qkv_attention_shape *s = j->s;
    if (j->bf16)
        return (j->backward ? qkv_executed_bf16_attend_backward : qkv_executed_bf16_attend_forward)(n_q, n_k, s->left, s->right, dim,
                                                                                                    value_dim) / 2;
    return (j->backward ? qkv_cost_attend_backward : qkv_cost_attend_forward)(n_q, n_k, s->left, s->right, dim, value_dim).executed / 2;
}

typedef struct charges {
    qkv_charge scores, softmax, values;
} charges;

static void add_sequence(const job *j, bool tiles, int64_t n_q, int64_t n_k, charges *c) {
    const qkv_attention_shape *s = j->s;
    const double heads = (double)s->heads, pairs = (double)qkv_span_pairs(n_q, n_k, s->left, s->right) * heads;
    const double scores = pairs * (double)s->dim * (j->backward ? 3 : 1), values = pairs * (double)s->value_dim * (j->backward ? 2 : 1);
    const qkv_cost all =
        (j->backward ? qkv_cost_attend_backward : qkv_cost_attend_forward)(n_q, n_k, s->left, s->right, s->dim, s->value_dim);
    c->scores.macs += scores;
    c->values.macs += values;
    c->scores.flops += 2 * scores;
    c->values.flops += 2 * values;
    c->softmax.flops += all.flops * heads - 2 * (scores + values);
    if (!tiles || n_q == 0) return;
    const double neither = executed(j, n_q, n_k, 0, 0);
    c->softmax.executed += neither * heads;
    c->scores.executed += (executed(j, n_q, n_k, s->dim, 0) - neither) * heads;
    c->values.executed += (executed(j, n_q, n_k, 0, s->value_dim) - neither) * heads;
}

/* Every operand once: q, k, v, o, lse; backward also dout, dq, dk, dv. */
static void add_bytes(const qkv_attention_shape *s, bool backward, charges *c) {
    const double q = (double)(s->sequences > 0 ? q_from(s, s->sequences) : 0), k = (double)(s->sequences > 0 ? s->k_offset[s->sequences] : 0);
    const double queries = q * (double)s->heads, keys = k * (double)s->kv_heads, both = (backward ? 2 : 1) * sizeof(real);
    c->scores.bytes = both * (queries + keys) * (double)s->dim;
    c->values.bytes = both * (queries + keys) * (double)s->value_dim;
    c->softmax.bytes = queries * sizeof(real);
}

static void add_charge(qkv_charge *to, const qkv_charge *c) {
    to->macs += c->macs;
    to->flops += c->flops;
    to->executed += c->executed;
}

/* What the tiles compute is asked for only where somebody will look at it. Sequences of one length are often side by side. */
static void book(qkv_exec *x, const job *j) {
    charges c = {0}, one = {0};
    for (int64_t i = 0, q = -1, k = -1; i < j->s->sequences; i++) {
        if (n_queries(j->s, i) != q || n_keys(j->s, i) != k) {
            q = n_queries(j->s, i);
            k = n_keys(j->s, i);
            one = (charges){0};
            add_sequence(j, x->ledger != NULL, q, k, &one);
        }
        add_charge(&c.scores, &one.scores);
        add_charge(&c.softmax, &one.softmax);
        add_charge(&c.values, &one.values);
    }
    add_bytes(j->s, j->backward, &c);
    qkv_exec_charge(x, QKV_CLASS_ATTENTION, QKV_WORK_SCORES, c.scores);
    qkv_exec_charge(x, QKV_CLASS_ATTENTION, QKV_WORK_SOFTMAX, c.softmax);
    qkv_exec_charge(x, QKV_CLASS_ATTENTION, QKV_WORK_VALUES, c.values);
}

qkv_status qkv_attend_forward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o, real *lse) {
    QKV_TRY(check(x, s));
    size_t mark = qkv_exec_mark(x);
    job j = {.s = s, .q = q, .k = k, .v = v, .o = o, .lse = lse};
    QKV_TRY(prepare(x, &j));
    book(x, &j);
    if (!x->plan) qkv_par(x->ctx, j.chunks, j.decode ? decode_chunk : forward_chunk, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attend_backward(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, qkv_heads v, qkv_heads o,
                               const real *lse, qkv_heads d_o, qkv_heads dq, qkv_heads dk, qkv_heads dv) {
    QKV_TRY(check(x, s));
    size_t mark = qkv_exec_mark(x);
    job j = {.s = s, .q = q, .k = k, .v = v, .o = o, .d_o = d_o, .dq = dq, .dk = dk, .dv = dv, .lse = (real *)lse, .backward = true};
    QKV_TRY(prepare(x, &j));
    book(x, &j);
    if (!x->plan) (j.split ? qkv_par_in_order : qkv_par)(x->ctx, j.chunks, backward_chunk, &j);
    if (!x->plan && s->bias && s->bias_grad) qkv_par(x->ctx, s->heads, bias_chunk, &j);
    qkv_exec_release(x, mark);
    return QKV_OK;
}

qkv_status qkv_attend_weights(qkv_exec *x, const qkv_attention_shape *s, qkv_heads q, qkv_heads k, int64_t sequence, int64_t head,
                              real *weights) {
    QKV_TRY(check(x, s));
    if (sequence < 0 || sequence >= s->sequences || head < 0 || head >= s->heads)
        return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld, head %lld: there are %lld sequences and %lld heads", (long long)sequence,
                        (long long)head, (long long)s->sequences, (long long)s->heads);
    int64_t n_q = n_queries(s, sequence), n_k = n_keys(s, sequence);
    double pairs = (double)qkv_span_pairs(n_q, n_k, s->left, s->right);
    qkv_exec_book(x, QKV_CLASS_ATTENTION, 2 * pairs * (double)s->dim, ((double)(n_q + n_k) * (double)s->dim + (double)n_q * (double)n_k) * sizeof(real));
    size_t mark = qkv_exec_mark(x);
    job j = {.kernels = x->ctx->kernels, .s = s, .q = q, .k = k, .q_rows = q_from(s, s->sequences), .most_q = n_q, .most_k = n_k};
    QKV_TRY(prepare_bias(x, &j));
    if (!x->plan && n_q > 0 && n_k > 0) {
        qkv_attend a = describe(&j, sequence, head);
        a.dropout = (qkv_dropout){0};
        j.kernels->attend_weights(&a, weights);
    }
    qkv_exec_release(x, mark);
    return QKV_OK;
}
