/* A pass of attention cut into chunks, and its memory. */
#include "ops/attention_job.h"
#include "kernels/cost.h"

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
static int64_t row_block(const job *j, int64_t n_q) {
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
    if (j->groups) {
        const qkv_seen seen = qkv_attention_seen(j->s, i);
        parts = qkv_groups(&seen);
    } else if (j->kind == ATTEND_WINDOW) {
        if (!j->backward)
            parts = qkv_chunks(r->n_q, row_block(j, r->n_q));
        else if (j->split && r->n_q > 0)
            parts = attend_key_tiles(r->n_k);
    }
    return parts > 0 ? parts : 1;
}

qkv_range qkv_attend_unit_rows(const job *j, unit u, int64_t n_q) {
    if (!j->groups) return qkv_chunk_range(n_q, row_block(j, n_q), u.part);
    const qkv_seen seen = qkv_attention_seen(j->s, u.sequence);
    if (seen.n_q == 0 || seen.n_k == 0) return (qkv_range){0, seen.n_q};
    const qkv_group group = qkv_group_of(&seen, u.part);
    return (qkv_range){group.first, group.first + group.rows};
}

static double pairs_of(const job *j, int64_t i, const attend_rows *r) {
    const qkv_seen seen = qkv_attention_seen(j->s, i / j->step);
    const double window = j->kind == ATTEND_WINDOW ? (double)qkv_span_pairs(r->n_q, r->n_k, j->s->left, j->s->right) : 0;
    if (j->kind != ATTEND_GLOBAL) return window + (j->beside || j->groups ? (double)qkv_group_most(&seen) * (double)r->n_q : 0);
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
        shared += s->heads * (j->kernels->attend_shared_scratch(n_q, s->dim, s->value_dim) + qkv_attend_shaw_work(j, n_q) +
                              qkv_attend_above_shared(j, i / j->step));
        blocks += s->heads * attend_handed_blocks(j, n_q);
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
    return j->kind == ATTEND_WINDOW && r.n_k > 0 ? attend_key_tiles(r.n_k) : parts_of(j, i, &r);
}

/* The bias of every head, from distance -(most_k - 1) on, of rows that are `step` apart. */
static qkv_status spread_bias(qkv_exec *x, const qkv_attention_shape *s, int64_t step, int64_t most_k, int64_t row, real **out) {
    const real log2e = (real)1.44269504088896340736;
    const int64_t reach = s->bias_reach, wide = 2 * reach + 1;
    qkv_mat rows;
    QKV_TRY(qkv_temp(x, s->heads, row, &rows));
    *out = rows.p;
    if (x->plan) return QKV_OK;
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t e = 0; e < row; e++) {
            const int64_t distance = (e - (most_k - 1)) * step, c = distance < -reach  ? -reach
                                                                    : distance > reach ? reach
                                                                                       : distance;
            rows.p[h * row + e] = s->bias[h * wide + c + reach] * log2e;
        }
    return QKV_OK;
}

/* The bias by distance, as far as the longest sequence goes, and room for its gradient. */
qkv_status qkv_attend_prepare_bias(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    int64_t wide = 2 * s->bias_reach + 1, count = 0;
    qkv_mat parts;
    if (!s->bias) return QKV_OK;
    j->bias_row = j->most_k + j->most_q + 16;
    QKV_TRY(spread_bias(x, s, j->step, j->most_k, j->bias_row, &j->bias));
    j->place_bias = j->bias;
    j->place_row = j->bias_row;
    j->place_most = j->most_k;
    if (j->beside && j->step > 1) {
        int64_t most_q = 0;
        for (int64_t i = 0; i < s->sequences; i++) {
            const qkv_seen seen = qkv_attention_seen(s, i);
            if (seen.n_q > most_q) most_q = seen.n_q;
            if (seen.n_k > j->place_most) j->place_most = seen.n_k;
        }
        j->place_row = j->place_most + most_q + 16;
        QKV_TRY(spread_bias(x, s, 1, j->place_most, j->place_row, &j->place_bias));
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
    if (j->kind != ATTEND_WINDOW || j->beside || j->backward || j->most_q != 1 || s->rope_cos || s->shaw_keys ||
        s->value_dim % 16 != 0)
        return 0;
    int64_t most = j->sequences * s->kv_heads < MANY * MANY ? FEW : MANY, fit = QKV_ATTEND_DECODE_HEADS / (s->heads / s->kv_heads);
    if (most > fit) most = fit > 0 ? fit : 1;
    if (j->sequences == 1 && most > (s->kv_heads + 1) / 2) most = (s->kv_heads + 1) / 2;
    return most < s->kv_heads ? most : s->kv_heads;
}

static int64_t scratch_of(const job *j, int64_t n_q, int64_t n_k, int64_t beside) {
    const qkv_attention_shape *s = j->s;
    if (j->decode) return j->kernels->attend_decode_scratch(j->decode * (s->heads / s->kv_heads), s->dim, s->value_dim);
    if (j->bf16)
        return (j->backward ? j->bf16->attend_backward_scratch : j->bf16->attend_forward_scratch)(n_q, n_k, s->dim, s->value_dim);
    int64_t size =
        (j->backward ? j->kernels->attend_backward_scratch : j->kernels->attend_forward_scratch)(n_q, n_k, s->dim, s->value_dim);
    if (beside > 0) size += j->kernels->attend_beside_scratch(beside, s->dim, s->value_dim);
    return j->split ? size - j->kernels->attend_shared_scratch(n_q, s->dim, s->value_dim) : size;
}

/* Rows that one unit gathers, or computes with them. */
typedef struct gathered_rows {
    int64_t queries, keys;
} gathered_rows;

static gathered_rows global_rows(const job *j, int64_t i) {
    const qkv_seen seen = qkv_attention_seen(j->s, i / j->step);
    return (gathered_rows){qkv_globals(&seen) - qkv_globals_before(&seen), seen.n_k};
}

static gathered_rows gathered_of(const job *j, int64_t i, const attend_rows *r) {
    if (j->kind == ATTEND_GLOBAL) return global_rows(j, i);
    const qkv_seen seen = qkv_attention_seen(j->s, i / j->step);
    if (j->groups) return (gathered_rows){j->s->pattern.block < r->n_q ? j->s->pattern.block : r->n_q, qkv_group_most(&seen)};
    return j->beside ? (gathered_rows){r->n_q, qkv_group_most(&seen)} : (gathered_rows){0, 0};
}

static void at_least(gathered_rows *most, gathered_rows g) {
    if (g.queries > most->queries) most->queries = g.queries;
    if (g.keys > most->keys) most->keys = g.keys;
}

static qkv_status prepare_real(qkv_exec *x, int64_t rows, int64_t cols, real **p) {
    qkv_mat m;
    QKV_TRY(qkv_temp(x, rows, cols, &m));
    *p = m.p;
    return QKV_OK;
}

/* Of global queries the rows of queries are copies, unless they have projections of their own; of keys beside the window those of keys
 * are. */
static qkv_status prepare_gathered(qkv_exec *x, const job *j, bool global, gathered_rows n, attend_gathered *g) {
    const qkv_attention_shape *s = j->s;
    const bool places = s->alibi || s->bias || s->rope_cos || s->shaw_keys;
    QKV_TRY(qkv_temp_array(x, 2 * n.queries, sizeof *g->hole, &g->hole));
    if (places) QKV_TRY(qkv_temp_array(x, n.queries, sizeof *g->q_at, &g->q_at));
    if (!global || places) QKV_TRY(qkv_temp_array(x, n.keys, sizeof *g->list, &g->list));
    const int64_t queries = global ? n.queries : 0, keys = global ? 0 : n.keys, copies = s->apart ? 0 : queries;
    QKV_TRY(prepare_real(x, copies, s->dim, &g->q));
    QKV_TRY(prepare_real(x, queries, s->value_dim, &g->o));
    QKV_TRY(prepare_real(x, keys, s->dim, &g->k));
    QKV_TRY(prepare_real(x, keys, s->value_dim, &g->v));
    QKV_TRY(prepare_real(x, 1, queries, &g->lse));
    if (s->dropout.p > 0) QKV_TRY(qkv_temp_array(x, queries, sizeof *g->row_key, &g->row_key));
    if (!j->backward || (j->beside && !global)) return QKV_OK;
    QKV_TRY(prepare_real(x, queries, s->value_dim, &g->d_o));
    QKV_TRY(prepare_real(x, queries, qkv_attend_shaw_count(j), &g->shaw_weights));
    QKV_TRY(prepare_real(x, queries, qkv_attend_shaw_count(j), &g->shaw_slopes));
    QKV_TRY(prepare_real(x, copies, s->dim, &g->dq));
    QKV_TRY(prepare_real(x, keys, s->dim, &g->dk));
    return prepare_real(x, keys, s->value_dim, &g->dv);
}

static qkv_status prepare_threads(qkv_exec *x, const job *j, bool global, gathered_rows most, attend_gathered **out) {
    const int threads = j->chunks > 1 || (j->beside && j->backward) ? x->ctx->threads : 1;
    QKV_TRY(qkv_temp_array(x, threads, sizeof **out, out));
    for (int t = 0; t < threads; t++) {
        attend_gathered g = {.sequence = -1};
        QKV_TRY(prepare_gathered(x, j, global, most, &g));
        if (*out) (*out)[t] = g;
    }
    return QKV_OK;
}

/* Scratch for every thread, and memory for what is gathered. */
static qkv_status prepare_scratch(qkv_exec *x, job *j) {
    const bool window = j->kind == ATTEND_WINDOW;
    int64_t most = 0;
    gathered_rows gathered = {0, 0}, globals = {0, 0};
    qkv_mat scratch;
    for (int64_t i = 0; i < j->sequences; i++) {
        const attend_rows r = qkv_attend_rows_of(j, i);
        const gathered_rows g = gathered_of(j, i, &r);
        const int64_t size = window ? scratch_of(j, r.n_q, r.n_k, g.keys) : scratch_of(j, g.queries, g.keys, 0);
        const int64_t above = qkv_attend_above_shared(j, i / j->step);
        if (size > most) most = size;
        if (!j->split && above > j->above_work) j->above_work = above;
        at_least(&gathered, g);
        at_least(&globals, global_rows(j, i));
    }
    if (j->beside || !window) QKV_TRY(prepare_threads(x, j, !window && !j->groups, gathered, &j->gathered));
    if (j->above) QKV_TRY(prepare_threads(x, j, true, globals, &j->globals));
    if (!j->split) j->shaw_work = qkv_attend_shaw_work(j, window ? j->most_q : gathered.queries);
    j->scratch_size = (most + 15) / 16 * 16 + j->shaw_work + j->above_work;
    QKV_TRY(qkv_temp(x, j->chunks > 1 ? x->ctx->threads : 1, j->scratch_size, &scratch));
    j->scratch = scratch.p;
    return QKV_OK;
}

/* Chunk table and memory. */
qkv_status qkv_attend_prepare(qkv_exec *x, job *j) {
    const qkv_attention_shape *s = j->s;
    const bool window = j->kind == ATTEND_WINDOW, random = s->pattern.random_blocks > 0;
    j->kernels = x->ctx->kernels;
    j->threads = x->ctx->threads;
    j->step = window ? qkv_dilation(&s->pattern) : 1;
    j->sequences = s->sequences * j->step;
    j->bf16 = window && qkv_attend_takes_bf16(x, s) ? x->ctx->bf16 : NULL;
    j->beside = window && qkv_attend_has_further(s) && !(j->backward && random);
    j->above = window && j->backward && qkv_attend_takes_above(s);
    j->groups = j->kind == ATTEND_GROUPS || (j->beside && random);
    unit *starts;
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
    QKV_TRY(qkv_attend_prepare_beside(x, j));
    j->chunks = cut(j, NULL);
    QKV_TRY(qkv_temp_array(x, j->chunks + 1, sizeof(unit), &starts));
    if (starts) cut(j, starts);
    j->starts = starts;
    return prepare_scratch(x, j);
}
