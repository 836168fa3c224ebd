#include "ops/position.h"

#include <math.h>

#include "base/par.h"
#include "ops/split.h"

static int64_t length_of(const qkv_batch *batch, int64_t s) { return batch->offset[s + 1] - batch->offset[s]; }

/* ---- rows of a table by position ---- */

qkv_status qkv_positions(qkv_exec *x, const qkv_batch *batch, int64_t table, qkv_position_beyond beyond, int32_t **numbers) {
    int64_t rows = batch->n_seq > 0 ? batch->offset[batch->n_seq] : 0;
    const bool ends = beyond != QKV_BEYOND_CLAMP && beyond != QKV_BEYOND_TILE;
    for (int64_t s = 0; ends && s < batch->n_seq; s++)
        if (length_of(batch, s) > table)
            return qkv_fail(x->ctx, QKV_BAD_ARGUMENT, "sequence %lld has %lld tokens; there are %lld positions", (long long)s,
                            (long long)length_of(batch, s), (long long)table);
    QKV_TRY(qkv_temp_array(x, rows, sizeof(int32_t), numbers));
    if (x->plan) return QKV_OK;
    for (int64_t s = 0; s < batch->n_seq; s++)
        for (int64_t r = batch->offset[s]; r < batch->offset[s + 1]; r++) {
            const int64_t p = r - batch->offset[s];
            (*numbers)[r] = (int32_t)(p < table ? p : beyond == QKV_BEYOND_TILE ? p % table : table - 1);
        }
    return QKV_OK;
}

typedef struct sinusoids {
    qkv_mat table;
    bool split;
} sinusoids;

/* A chunk is a pair of columns: both share a frequency. */
static void sinusoidal_chunk(void *arg, int64_t chunk, int thread) {
    const sinusoids *j = arg;
    const qkv_mat *t = &j->table;
    (void)thread;
    const int64_t pairs = (t->cols + 1) / 2, sine = j->split ? chunk : 2 * chunk, cosine = j->split ? pairs + chunk : 2 * chunk + 1;
    double w = pow(10000.0, -(double)(2 * chunk) / (double)t->cols);
    for (int64_t p = 0; p < t->rows; p++) {
        t->p[p * t->ld + sine] = (real)sin((double)p * w);
        if (cosine < t->cols) t->p[p * t->ld + cosine] = (real)cos((double)p * w);
    }
}

qkv_status qkv_sinusoidal(qkv_exec *x, qkv_position_layout layout, qkv_mat table) {
    QKV_TRY(qkv_exec_shape(x, "table of positions", table, table.rows, table.cols));
    double elements = (double)table.rows * (double)table.cols;
    qkv_exec_other(x, QKV_WORK_EMBEDDING, 2 * elements, elements * sizeof(real));
    if (x->plan) return QKV_OK;
    sinusoids j = {table, layout == QKV_LAYOUT_SPLIT};
    qkv_par(x->ctx, qkv_chunks(table.cols, 2), sinusoidal_chunk, &j);
    return QKV_OK;
}

/* ---- a table spread over a longer sequence ---- */

typedef struct between {
    const qkv_batch *batch;
    qkv_mat table, rows;
    int64_t grain;
} between;

/* Row `low` and the share of the one after it; the share of a row that there is alone is 0, and that row is not read. */
static double place(const between *j, int64_t s, int64_t p, int64_t *low) {
    const int64_t n = length_of(j->batch, s), rows = j->table.rows;
    const double at = n > rows ? (double)(p * (rows - 1)) / (double)(n - 1) : (double)p;
    *low = (int64_t)at;
    return at - (double)*low;
}

static void between_forward_chunk(void *arg, int64_t s, int thread) {
    const between *j = arg;
    (void)thread;
    for (int64_t r = j->batch->offset[s]; r < j->batch->offset[s + 1]; r++) {
        int64_t low;
        const real share = (real)place(j, s, r - j->batch->offset[s], &low);
        const real *from = j->table.p + low * j->table.ld;
        real *to = j->rows.p + r * j->rows.ld;
        for (int64_t c = 0; c < j->rows.cols; c++) {
            real value = from[c];
            if (share > 0) value = (1 - share) * value + share * from[j->table.ld + c];
            to[c] += value;
        }
    }
}

/* Columns of a chunk. */
static void between_backward_chunk(void *arg, int64_t chunk, int thread) {
    const between *j = arg;
    const qkv_range columns = qkv_chunk_range(j->rows.cols, j->grain, chunk);
    (void)thread;
    for (int64_t s = 0; s < j->batch->n_seq; s++)
        for (int64_t r = j->batch->offset[s]; r < j->batch->offset[s + 1]; r++) {
            int64_t low;
            const real share = (real)place(j, s, r - j->batch->offset[s], &low);
            const real *from = j->rows.p + r * j->rows.ld;
            real *to = j->table.p + low * j->table.ld;
            for (int64_t c = columns.from; c < columns.to; c++) {
                to[c] += (1 - share) * from[c];
                if (share > 0) to[j->table.ld + c] += share * from[c];
            }
        }
}

static qkv_status check_between(qkv_exec *x, qkv_mat table, qkv_mat rows) {
    QKV_TRY(qkv_exec_shape(x, "position table", table, table.rows, rows.cols));
    QKV_TRY(qkv_exec_shape(x, "rows with positions", rows, rows.rows, table.cols));
    const double elements = (double)rows.rows * (double)rows.cols;
    qkv_exec_other(x, QKV_WORK_EMBEDDING, 4 * elements, 4 * elements * sizeof(real));
    return QKV_OK;
}

qkv_status qkv_between_forward(qkv_exec *x, const qkv_batch *batch, qkv_mat table, qkv_mat out) {
    QKV_TRY(check_between(x, table, out));
    between j = {batch, table, out, 0};
    if (!x->plan && table.rows > 0) qkv_par(x->ctx, batch->n_seq, between_forward_chunk, &j);
    return QKV_OK;
}

qkv_status qkv_between_backward(qkv_exec *x, const qkv_batch *batch, qkv_mat dtable, qkv_mat dout) {
    QKV_TRY(check_between(x, dtable, dout));
    between j = {batch, dtable, dout, 16};
    if (!x->plan && dtable.rows > 0) qkv_par(x->ctx, qkv_chunks(dout.cols, j.grain), between_backward_chunk, &j);
    return QKV_OK;
}

/* ---- angles ---- */

/* theta of pair c, per position (docs/positions.md). */
static double angle_of(const qkv_rope *r, int64_t c) {
    const double d = (double)r->dim, pi = 3.14159265358979323846;
    double base = r->base;
    if (r->stretch == QKV_STRETCH_NTK && r->dim > 2) base *= pow(r->factor, d / (d - 2));
    const double theta = pow(base, -2.0 * (double)c / d);
    if (r->stretch == QKV_STRETCH_LINEAR) return theta / r->factor;
    if (r->stretch != QKV_STRETCH_YARN) return theta;
    enum { FEW = 1, MANY = 32 }; /* turns within the length: bands below the one are stretched, above the other left alone */
    double keep = (r->length * theta / (2 * pi) - FEW) / (MANY - FEW);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return (1 - keep) * theta / r->factor + keep * theta;
}

double qkv_rope_sharpen(const qkv_rope *r) {
    if (r->stretch != QKV_STRETCH_YARN) return 1;
    const double t = 0.1 * log(r->factor) + 1;
    return t * t;
}

typedef struct angles {
    const qkv_rope *rope;
    qkv_mat cosine, sine;
} angles;

enum { ANGLE_ROWS = 64 };

/* The first position of a chunk by the library's sine, each following one by turning the one before it: errors stay within a few
 * units of double over so few. */
static void angles_chunk(void *arg, int64_t chunk, int thread) {
    const angles *j = arg;
    const qkv_range rows = qkv_chunk_range(j->cosine.rows, ANGLE_ROWS, chunk);
    (void)thread;
    for (int64_t c = 0; c < j->cosine.cols; c++) {
        const double theta = angle_of(j->rope, c), step_c = cos(theta), step_s = sin(theta);
        double co = cos((double)rows.from * theta), si = sin((double)rows.from * theta);
        for (int64_t p = rows.from; p < rows.to; p++) {
            j->cosine.p[p * j->cosine.ld + c] = (real)co;
            j->sine.p[p * j->sine.ld + c] = (real)si;
            const double next = co * step_c - si * step_s;
            si = si * step_c + co * step_s;
            co = next;
        }
    }
}

qkv_status qkv_rope_angles(qkv_exec *x, const qkv_rope *r, qkv_mat cosine, qkv_mat sine) {
    QKV_TRY(qkv_exec_shape(x, "cosines", cosine, sine.rows, r->dim / 2));
    QKV_TRY(qkv_exec_shape(x, "sines", sine, cosine.rows, r->dim / 2));
    double elements = (double)cosine.rows * (double)cosine.cols;
    qkv_exec_other(x, QKV_WORK_EMBEDDING, 6 * elements, 2 * elements * sizeof(real));
    if (x->plan) return QKV_OK;
    angles j = {r, cosine, sine};
    qkv_par(x->ctx, qkv_chunks(cosine.rows, ANGLE_ROWS), angles_chunk, &j);
    return QKV_OK;
}

/* ---- biases ---- */

/* Of p heads, a power of two, the slopes are 2^(-8h/p), h = 1 .. p. Where there are more heads than that, the others have every other
 * slope of 2p heads, from the first on. */
void qkv_alibi_slopes(int64_t heads, float *slopes) {
    int64_t p = 1;
    while (2 * p <= heads) p *= 2;
    for (int64_t h = 0; h < heads; h++)
        slopes[h] = (float)(h < p ? exp2(-8.0 * (double)(h + 1) / (double)p) : exp2(-8.0 * (double)(2 * (h - p) + 1) / (double)(2 * p)));
}

int64_t qkv_bucket(const qkv_buckets *b, int64_t distance) {
    int64_t n = b->causal ? b->count : b->count / 2, first = 0, far = distance < 0 ? -distance : distance;
    if (b->causal) far = distance < 0 ? -distance : 0;
    else if (distance > 0) first = n;
    const int64_t exact = n / 2;
    if (far < exact) return first + far;
    const double share = log((double)far / (double)exact) / log((double)b->reach / (double)exact);
    const double at = (double)exact + floor(share * (double)(n - exact));
    return first + (at < (double)(n - 1) ? (int64_t)at : n - 1);
}

static qkv_status check_buckets(qkv_exec *x, const qkv_buckets *b, qkv_mat table, qkv_mat bias) {
    QKV_TRY(qkv_exec_shape(x, "table of buckets", table, b->count, bias.rows));
    QKV_TRY(qkv_exec_shape(x, "biases by distance", bias, table.cols, 2 * b->reach + 1));
    const double elements = (double)bias.rows * (double)bias.cols;
    qkv_exec_other(x, QKV_WORK_EMBEDDING, x->pass == QKV_PASS_BACKWARD ? elements : 0, 2 * elements * sizeof(real));
    return QKV_OK;
}

qkv_status qkv_bucket_bias(qkv_exec *x, const qkv_buckets *b, qkv_mat table, qkv_mat bias) {
    QKV_TRY(check_buckets(x, b, table, bias));
    for (int64_t d = -b->reach; !x->plan && d <= b->reach; d++) {
        const int64_t bucket = qkv_bucket(b, d);
        for (int64_t h = 0; h < bias.rows; h++) bias.p[h * bias.ld + d + b->reach] = table.p[bucket * table.ld + h];
    }
    return QKV_OK;
}

qkv_status qkv_bucket_bias_backward(qkv_exec *x, const qkv_buckets *b, qkv_mat dbias, qkv_mat dtable) {
    QKV_TRY(check_buckets(x, b, dtable, dbias));
    for (int64_t d = -b->reach; !x->plan && d <= b->reach; d++) {
        const int64_t bucket = qkv_bucket(b, d);
        for (int64_t h = 0; h < dbias.rows; h++) dtable.p[bucket * dtable.ld + h] += dbias.p[h * dbias.ld + d + b->reach];
    }
    return QKV_OK;
}
