/* A pass of attention cut into chunks, and its memory. */
#include "ops/attention_job.h"
#include "kernels/cost.h"
#include "ops/split.h"

/* Multiply-adds worth a chunk of their own. */
static const double CHUNK_WORK = 2e6;

/* Class i % step of the residues of sequence i / step. */
attend_rows qkv_attend_rows_of(const job *j, int64_t i) {
    const int64_t sequence = i / j->step, class = i % j->step, q0 = attend_q_from(j->s, sequence), k0 = j->s->k_offset[sequence];
    const qkv_seen seen = qkv_attention_seen(j->s, sequence);
    if (j->step == 1) return (attend_rows){seen.n_q, seen.n_k, q0, k0, q0};
    const qkv_residue r = qkv_residue_of(&seen, class);
    attend_rows rows = {r.n_q, r.n_k, q0 + r.first, k0 + class, q0};
    rows.lse += qkv_residues_below(&seen, class);
    return rows;
}

/* ---- cutting into chunks ---- */

/* Each packs the keys it sees anew, so a head is cut only where there are few of them, and where it
 * sees a window: then what is packed should stay in the cache. Multiples of 6: blocks of rows are the same as uncut. */
int64_t qkv_attend_row_block(const job *j, int64_t n_q) {
    const qkv_attention_shape *s = j->s;
    enum { UNITS = 16, ROWS = 960, LEAST_ROWS = 480 };
    int64_t units = j->sequences * s->heads, parts = (UNITS + units - 1) / units;
    bool narrow = s->left >= 0 && s->right >= 0 && s->left < 4 * ROWS && s->right < 4 * ROWS - s->left;
    int64_t rows = narrow && s->left + s->right < LEAST_ROWS ? LEAST_ROWS : ROWS; /* of a window */
    if (parts > n_q / ROWS) parts = n_q / ROWS;
    if (parts * units < 4) parts = n_q / LEAST_ROWS;
    if (narrow && parts < n_q / rows) parts = n_q / rows;
    if (parts < 2) return n_q > 0 ? n_q : 1;
    return (n_q + 6 * parts - 1) / (6 * parts) * 6;
}

static int64_t parts_of(const job *j, int64_t i, const attend_rows *r) {
    int64_t parts = 1;
    if (j->kind == ATTEND_FURTHER) {
        const qkv_seen seen = qkv_attention_seen(j->s, i);
        parts = qkv_groups(&seen);
    } else if (j->kind == ATTEND_WINDOW) {
        if (!j->backward) parts = qkv_chunks(r->n_q, qkv_attend_row_block(j, r->n_q));
        else if (j->split && r->n_q > 0) parts = attend_key_tiles(r->n_k);
    }
    return parts > 0 ? parts : 1;
}

static double pairs_of(const job *j, int64_t i, const attend_rows *r) {
    if (j->kind == ATTEND_WINDOW) return (double)qkv_span_pairs(r->n_q, r->n_k, j->s->left, j->s->right);
    const qkv_seen seen = qkv_attention_seen(j->s, i);
    if (j->kind == ATTEND_FURTHER) return (double)qkv_group_most(&seen) * (double)r->n_q;
    return (double)(qkv_globals(&seen) - qkv_globals_before(&seen)) * (double)r->n_k;
}

/* Walks all units and closes a chunk when it has gathered enough work. Returns their number; fills starts if not NULL. */
static int64_t cut(const job *j, unit *starts) {
    const qkv_attention_shape *s = j->s;
    int64_t chunks = 0, width = s->dim + s->value_dim;
    double gathered = 0, work = (j->backward ? 2.5 * (double)(s->heads / s->kv_heads) : 1) * (double)width;
    for (int64_t i = 0; i < j->sequences; i++) {
        const attend_rows r = qkv_attend_rows_of(j, i);
        const int64_t parts = parts_of(j, i, &r);
        double unit_work = pairs_of(j, i, &r) / (double)parts * work + 8.0 * (double)(r.n_k + r.n_q) * (double)width;
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
    if (starts) starts[chunks] = (unit){j->sequences, 0, 0};
    return chunks;
}

bool qkv_attend_unit_before(unit a, unit b) {
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    if (a.part != b.part) return a.part < b.part;
    return a.head < b.head;
}

unit qkv_attend_unit_next(const job *j, unit u) {
    if (++u.head < j->unit_heads) return u;
    u.head = 0;
    const attend_rows r = qkv_attend_rows_of(j, u.sequence);
    if (++u.part < parts_of(j, u.sequence, &r)) return u;
    return (unit){u.sequence + 1, 0, 0};
}

bool qkv_attend_unit_expected(const job *j, int64_t chunk, unit u, unit *next) {
    *next = qkv_attend_unit_next(j, u);
    if (qkv_attend_unit_before(*next, j->starts[chunk + 1])) return true;
    if (chunk + j->threads >= j->chunks) return false;
    *next = j->starts[chunk + j->threads];
    return true;
}

/* ---- memory, from the top of the arena ---- */

/* Where there are few heads, the key tiles of each are units; what they share is laid out here. */
static qkv_status prepare_split(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    enum { FEW = QKV_ATTEND_FEW_HEADS };
    j->split = j->kind == ATTEND_WINDOW && j->backward && !j->bf16 && j->sequences * s->kv_heads < FEW && j->most_k > QKV_ATTEND_KEYS;
    if (!j->split) return QKV_OK;
    int64_t shared = 0, blocks = 0, at[FEW + 1][2];
    for (int64_t i = 0; i < j->sequences; i++) {
        const int64_t n_q = qkv_attend_rows_of(j, i).n_q;
        at[i][0] = shared;
        at[i][1] = blocks;
        shared += s->heads * (j->kernels->attend_shared_scratch(n_q, s->dim, s->value_dim) + qkv_attend_shaw_shared(j, n_q));
        blocks += s->heads * j->kernels->attend_blocks(n_q);
    }
    qkv_mat memory;
    QKV_TRY(qkv_temp(x, 1, shared, &memory));
    QKV_TRY(qkv_temp_array(x, blocks, sizeof *j->seen, &j->seen));
    QKV_TRY(qkv_temp_array(x, j->sequences, sizeof(int64_t), &j->shared_at));
    QKV_TRY(qkv_temp_array(x, j->sequences, sizeof(int64_t), &j->blocks_at));
    j->shared = memory.p;
    if (x->plan) return QKV_OK;
    for (int64_t i = 0; i < blocks; i++) j->seen[i] = (qkv_par_counter){0};
    for (int64_t i = 0; i < j->sequences; i++) {
        j->shared_at[i] = at[i][0];
        j->blocks_at[i] = at[i][1];
    }
    return QKV_OK;
}

static int64_t bias_parts_of(const job *j, int64_t i) {
    const attend_rows r = qkv_attend_rows_of(j, i);
    return j->kind == ATTEND_WINDOW ? attend_key_tiles(r.n_k) : parts_of(j, i, &r);
}

/* The bias by distance, as far as the longest sequence goes, and room for its gradient. */
qkv_status qkv_attend_prepare_bias(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    const real log2e = (real)1.44269504088896340736;
    int64_t reach = s->bias_reach, wide = 2 * reach + 1, count = 0;
    qkv_mat rows, parts;
    if (!s->bias) return QKV_OK;
    j->bias_row = j->most_k + j->most_q + 16;
    QKV_TRY(qkv_temp(x, s->heads, j->bias_row, &rows));
    j->bias = rows.p;
    if (!x->plan)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t e = 0; e < j->bias_row; e++) {
                int64_t distance = (e - (j->most_k - 1)) * j->step, c = distance < -reach ? -reach : distance > reach ? reach : distance;
                rows.p[h * j->bias_row + e] = s->bias[h * wide + c + reach] * log2e;
            }
    if (!j->backward || !s->bias_grad) return QKV_OK;
    QKV_TRY(qkv_temp_array(x, j->sequences + 1, sizeof(int64_t), &j->parts_at));
    for (int64_t i = 0; i <= j->sequences; i++) {
        if (j->parts_at) j->parts_at[i] = count;
        if (i < j->sequences) count += bias_parts_of(j, i);
    }
    QKV_TRY(qkv_temp(x, count * s->heads, wide, &parts));
    j->bias_parts = parts.p;
    return QKV_OK;
}

/* Heads of one query each are computed together: then each row of keys and values is read along. Fewer at a time where there are
 * few sequences, so that there is something to share out. */
static int64_t decode_heads(const job *j) {
    const qkv_attention_shape *s = j->s;
    enum { MANY = 8, FEW = 4 };
    if (j->kind != ATTEND_WINDOW || j->backward || j->most_q != 1 || s->rope_cos || s->shaw_keys || s->value_dim % 16 != 0) return 0;
    int64_t most = j->sequences * s->kv_heads < MANY * MANY ? FEW : MANY, fit = QKV_ATTEND_DECODE_HEADS / (s->heads / s->kv_heads);
    if (most > fit) most = fit > 0 ? fit : 1;
    if (j->sequences == 1 && most > (s->kv_heads + 1) / 2) most = (s->kv_heads + 1) / 2;
    return most < s->kv_heads ? most : s->kv_heads;
}

static int64_t scratch_of(const job *j, int64_t n_q, int64_t n_k) {
    const qkv_attention_shape *s = j->s;
    if (j->decode) return j->kernels->attend_decode_scratch(j->decode * (s->heads / s->kv_heads), s->dim, s->value_dim);
    if (j->bf16) return (j->backward ? j->bf16->attend_backward_scratch : j->bf16->attend_forward_scratch)(n_q, n_k, s->dim, s->value_dim);
    int64_t size = (j->backward ? j->kernels->attend_backward_scratch : j->kernels->attend_forward_scratch)(n_q, n_k, s->dim, s->value_dim);
    return j->split ? size - j->kernels->attend_shared_scratch(n_q, s->dim, s->value_dim) : size;
}

/* Rows that one unit gathers, or computes with them. */
typedef struct gathered_rows {
    int64_t queries, keys;
} gathered_rows;

static gathered_rows gathered_of(const job *j, int64_t i) {
    const qkv_seen seen = qkv_attention_seen(j->s, i);
    if (j->kind == ATTEND_GLOBAL) return (gathered_rows){qkv_globals(&seen) - qkv_globals_before(&seen), seen.n_k};
    gathered_rows most = {0, qkv_group_most(&seen)};
    for (int64_t g = 0, groups = qkv_groups(&seen); g < groups; g++) {
        const qkv_group group = qkv_group_of(&seen, g);
        if (group.rows > most.queries) most.queries = group.rows;
    }
    return most;
}

static qkv_status prepare_real(qkv_exec *x, int64_t rows, int64_t cols, real **p) {
    qkv_mat m;
    QKV_TRY(qkv_temp(x, rows, cols, &m));
    *p = m.p;
    return QKV_OK;
}

/* Of global queries the rows of queries are copies, of further keys those of keys are. */
static qkv_status prepare_gathered(qkv_exec *x, const job *j, gathered_rows n, attend_gathered *g) {
    const qkv_attention_shape *s = j->s;
    const bool global = j->kind == ATTEND_GLOBAL, places = s->alibi || s->bias || s->rope_cos, drops = s->dropout.p > 0;
    QKV_TRY(prepare_real(x, n.queries, s->value_dim, &g->o));
    QKV_TRY(prepare_real(x, 1, n.queries, &g->lse));
    QKV_TRY(prepare_real(x, 1, n.queries, &g->own));
    QKV_TRY(qkv_temp_array(x, 2 * n.queries, sizeof *g->hole, &g->hole));
    if (places) QKV_TRY(qkv_temp_array(x, n.queries, sizeof *g->q_at, &g->q_at));
    if (!global || places) QKV_TRY(qkv_temp_array(x, n.keys, sizeof *g->list, &g->list));
    if (drops) QKV_TRY(qkv_temp_array(x, n.queries, sizeof *g->row_key, &g->row_key));
    const int64_t queries = global ? n.queries : 0, keys = global ? 0 : n.keys;
    QKV_TRY(prepare_real(x, queries, s->dim, &g->q));
    QKV_TRY(prepare_real(x, keys, s->dim, &g->k));
    QKV_TRY(prepare_real(x, keys, s->value_dim, &g->v));
    if (!j->backward) return QKV_OK;
    QKV_TRY(prepare_real(x, queries, s->value_dim, &g->d_o));
    QKV_TRY(prepare_real(x, queries, s->dim, &g->dq));
    QKV_TRY(prepare_real(x, keys, s->dim, &g->dk));
    return prepare_real(x, keys, s->value_dim, &g->dv);
}

static qkv_status prepare_threads(qkv_exec *x, job *j, gathered_rows most) {
    const int threads = j->chunks > 1 ? x->ctx->threads : 1;
    QKV_TRY(qkv_temp_array(x, threads, sizeof *j->gathered, &j->gathered));
    for (int t = 0; t < threads; t++) {
        attend_gathered g = {0};
        QKV_TRY(prepare_gathered(x, j, most, &g));
        if (j->gathered) j->gathered[t] = g;
    }
    return QKV_OK;
}

/* Chunk table and scratch for every thread. */
qkv_status qkv_attend_prepare(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    const bool window = j->kind == ATTEND_WINDOW;
    j->kernels = x->ctx->kernels;
    j->threads = x->ctx->threads;
    j->step = window ? qkv_dilation(&s->pattern) : 1;
    j->sequences = s->sequences * j->step;
    j->bf16 = window && qkv_attend_takes_bf16(x, s) ? x->ctx->bf16 : NULL;
    unit *starts;
    qkv_mat scratch;
    int64_t most = 0;
    gathered_rows gathered = {0, 0};
    j->q_rows = s->sequences > 0 ? attend_q_from(s, s->sequences) : 0;
    j->unit_heads = j->backward ? s->kv_heads : s->heads;
    for (int64_t i = 0; i < j->sequences; i++) {
        const attend_rows r = qkv_attend_rows_of(j, i);
        if (r.n_q > j->most_q) j->most_q = r.n_q;
        if (r.n_k > j->most_k) j->most_k = r.n_k;
    }
    j->decode = decode_heads(j);
    if (j->decode) {
        j->bf16 = NULL;
        j->unit_heads = qkv_chunks(s->kv_heads, j->decode);
    }
    QKV_TRY(prepare_split(x, j));
    QKV_TRY(qkv_attend_prepare_shaw(x, j));
    QKV_TRY(qkv_attend_prepare_bias(x, j));
    j->chunks = cut(j, NULL);
    QKV_TRY(qkv_temp_array(x, j->chunks + 1, sizeof(unit), &starts));
    if (starts) cut(j, starts);
    for (int64_t i = 0; i < j->sequences; i++) {
        const attend_rows r = qkv_attend_rows_of(j, i);
        const gathered_rows g = window ? (gathered_rows){r.n_q, r.n_k} : gathered_of(j, i);
        const int64_t size = scratch_of(j, g.queries, g.keys);
        if (size > most) most = size;
        if (g.queries > gathered.queries) gathered.queries = g.queries;
        if (g.keys > gathered.keys) gathered.keys = g.keys;
    }
    if (!window) QKV_TRY(prepare_threads(x, j, gathered));
    j->scratch_size = (most + 15) / 16 * 16 + j->shaw_work;
    QKV_TRY(qkv_temp(x, j->chunks > 1 ? x->ctx->threads : 1, j->scratch_size, &scratch));
    j->starts = starts;
    j->scratch = scratch.p;
    return QKV_OK;
}
