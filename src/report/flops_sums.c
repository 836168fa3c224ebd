/* From a ledger to sums by layer and by operation. */
#include <stdio.h>
#include <string.h>

#include "report/flops.h"

static const char *const WORK[QKV_WORKS] = {
    [QKV_WORK_LINEAR] = "linear maps",
    [QKV_WORK_PROJECTION] = "projections",
    [QKV_WORK_SCORES] = "queries x keys",
    [QKV_WORK_SOFTMAX] = "softmax",
    [QKV_WORK_VALUES] = "weights x values",
    [QKV_WORK_FEED_FORWARD] = "feed-forward",
    [QKV_WORK_RECURRENCE] = "recurrence",
    [QKV_WORK_ACTIVATION] = "activation",
    [QKV_WORK_NORM] = "norms",
    [QKV_WORK_RESIDUAL] = "sums, dropout",
    [QKV_WORK_EMBEDDING] = "embedding",
    [QKV_WORK_POOLING] = "pooling",
    [QKV_WORK_HEAD] = "head",
    [QKV_WORK_LOSS] = "loss",
    [QKV_WORK_OPTIMIZER] = "optimizer",
    [QKV_WORK_OTHER] = "other",
};

/* In the order that rows go through them. */
static const qkv_work ORDER[QKV_WORKS] = {
    QKV_WORK_EMBEDDING, QKV_WORK_NORM,       QKV_WORK_PROJECTION, QKV_WORK_LINEAR,       QKV_WORK_SCORES,     QKV_WORK_SOFTMAX,
    QKV_WORK_VALUES,    QKV_WORK_RECURRENCE, QKV_WORK_RESIDUAL,   QKV_WORK_FEED_FORWARD, QKV_WORK_ACTIVATION, QKV_WORK_POOLING,
    QKV_WORK_HEAD,      QKV_WORK_LOSS,       QKV_WORK_OPTIMIZER,  QKV_WORK_OTHER,
};

/* ---- whose a parameter is ---- */

typedef struct owner {
    const char *part; /* of the parameter's name */
    qkv_work work;
    const char *layer; /* where it is not one of a block's */
} owner;

static const owner OWNERS[] = {
    {"attention.", QKV_WORK_PROJECTION, "attention"},
    {"ffn.", QKV_WORK_FEED_FORWARD, "feed-forward"},
    {"norm", QKV_WORK_NORM, "norm"},
    {"embedding.", QKV_WORK_EMBEDDING, "embedding"},
    {"position.", QKV_WORK_EMBEDDING, "embedding"},
    {"pool.", QKV_WORK_POOLING, "pooling"},
    {"head.", QKV_WORK_HEAD, "head"},
    {"input.", QKV_WORK_PROJECTION, "recurrence"},
};

static owner owner_of(const char *name) {
    for (size_t i = 0; i < sizeof OWNERS / sizeof *OWNERS; i++)
        if (strstr(name, OWNERS[i].part)) return OWNERS[i];
    return (owner){"", QKV_WORK_RECURRENCE, "recurrence"};
}

/* "encoder.0" of "encoder.0.ffn.in.weight"; else what the owner says. */
static void layer_of(const char *name, owner o, char *text, size_t size) {
    const char *dot = strchr(name, '.');
    const size_t digits = dot ? strspn(dot + 1, "0123456789") : 0;
    if (digits > 0 && dot[1 + digits] == '.')
        snprintf(text, size, "%.*s", (int)(dot + 1 + digits - name), name);
    else if (strncmp(name, "segments.", 9) == 0)
        snprintf(text, size, "segments");
    else
        snprintf(text, size, "%s", o.layer);
}

static void label_of(qkv_place p, char *text, size_t size) {
    if (!p.name)
        snprintf(text, size, "other");
    else if (p.index < 0)
        snprintf(text, size, "%s", p.name);
    else
        snprintf(text, size, "%s.%lld", p.name, (long long)p.index);
}

/* ---- sums ---- */

static void add(qkv_flops_part *part, int pass, const qkv_charge *c) {
    qkv_flops_sum *const to[2] = {&part->pass[pass], &part->total};
    for (int i = 0; i < 2; i++) {
        to[i]->macs += c->macs;
        to[i]->flops += c->flops;
        to[i]->executed += c->executed;
        to[i]->bytes += c->bytes;
    }
}

static qkv_flops_part *named(qkv_flops_part *parts, int64_t *count, const char *name) {
    for (int64_t i = 0; i < *count; i++)
        if (strcmp(parts[i].name, name) == 0) return &parts[i];
    snprintf(parts[*count].name, sizeof parts->name, "%s", name);
    return &parts[(*count)++];
}

static void sum_charges(const qkv_ledger *l, qkv_flops *f, qkv_flops_part by_work[QKV_WORKS]) {
    for (int64_t e = 0; e < l->count; e++) {
        char label[40];
        label_of(l->entries[e].place, label, sizeof label);
        qkv_flops_part *layer = named(f->layers, &f->layer_count, label);
        for (int p = 0; p < QKV_PASSES; p++)
            for (int k = 0; k < QKV_WORKS; k++) {
                const qkv_charge *c = &l->entries[e].of[p][k];
                add(layer, p, c);
                add(&by_work[k], p, c);
                add(&f->total, p, c);
            }
    }
}

static void sum_parameters(const qkv_reg *reg, qkv_flops *f, qkv_flops_part by_work[QKV_WORKS]) {
    for (int64_t i = 0; i < reg->count; i++) {
        const qkv_param *p = &reg->params[i];
        const owner o = owner_of(p->name);
        const int64_t count = p->rows * p->cols;
        char label[40];
        layer_of(p->name, o, label, sizeof label);
        named(f->layers, &f->layer_count, label)->parameters += count;
        by_work[o.work].parameters += count;
        f->total.parameters += count;
    }
}

static bool nothing(const qkv_flops_part *p) {
    return p->parameters == 0 && p->total.flops == 0 && p->total.bytes == 0;
}

static void keep_used(qkv_flops *f, const qkv_flops_part by_work[QKV_WORKS]) {
    for (int i = 0; i < QKV_WORKS; i++) {
        if (nothing(&by_work[ORDER[i]])) continue;
        qkv_flops_part *to = &f->operations[f->operation_count++];
        *to = by_work[ORDER[i]];
        snprintf(to->name, sizeof to->name, "%s", WORK[ORDER[i]]);
    }
}

static void describe_batch(const qkv_batch *b, qkv_flops *f) {
    f->sequences = b->n_seq;
    f->tokens = b->n_seq > 0 ? b->offset[b->n_seq] : 0;
    f->segments = b->segments ? b->segments[b->n_seq] : 0;
    for (int64_t i = 0; i < b->n_seq; i++) {
        const int64_t n = b->offset[i + 1] - b->offset[i];
        if (i == 0 || n < f->shortest) f->shortest = n;
        if (n > f->longest) f->longest = n;
        f->all_pairs += (double)n * (double)n;
    }
}

static void sum_memory(const qkv_flops_walk *w, qkv_flops *f) {
    f->weight_bytes = (w->weights + w->packed) * sizeof(real);
    f->state_bytes = w->train ? 3 * w->weights * sizeof(real) : 0;
    f->activation_bytes = (double)w->x.arena.peak;
    f->row_bytes = w->rows * sizeof(real);
    f->peak_bytes = f->weight_bytes + f->state_bytes + f->activation_bytes + f->row_bytes;
}

qkv_status qkv_flops_sums(const qkv_flops_walk *w, qkv_flops **out) {
    const int64_t layers = w->ledger.capacity + 4; /* and parameters of what is never computed */
    qkv_flops_part by_work[QKV_WORKS] = {0};
    qkv_flops *f;
    char *block;
    if (w->ledger.overflow)
        return qkv_fail(w->ctx, QKV_INTERNAL, "more than %lld places in a network", (long long)w->ledger.capacity);
    QKV_TRY(qkv_alloc_zero(w->ctx, 1, sizeof *f + (size_t)(layers + QKV_WORKS) * sizeof *f->layers, &block));
    f = (qkv_flops *)(void *)block;
    f->layers = (qkv_flops_part *)(void *)(f + 1);
    f->operations = f->layers + layers;
    f->train = w->train;
    f->recompute = qkv_saving_any(w->saving);
    f->recompute_part = (int)w->saving.again;
    f->recompute_every = w->saving.every;
    f->ffn_chunk = w->saving.ffn_rows;
    snprintf(f->total.name, sizeof f->total.name, "total");
    sum_charges(&w->ledger, f, by_work);
    sum_parameters(w->x.reg, f, by_work);
    keep_used(f, by_work);
    describe_batch(&w->batch, f);
    sum_memory(w, f);
    *out = f;
    return QKV_OK;
}
