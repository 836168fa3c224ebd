/* Names of options: the nearest one, the one that stands for fastText's, the one that stands for the library's. */
#include "cli.h"

typedef struct nearest {
    const char *name;
    size_t distance;
} nearest;

/* Letters to insert, delete, replace or swap with their neighbour. Names are short. */
static size_t edit_distance(const char *a, const char *b) {
    enum { MOST = 40 };
    size_t n = strlen(a), m = strlen(b), row[3][MOST + 1];
    if (n > MOST || m > MOST) return MOST;
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && older[j - 2] + 1 < best) best = older[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

static void try_name(nearest *best, const char *given, const char *candidate) {
    size_t length = strlen(given), distance = edit_distance(given, candidate);
    /* An abbreviation is as near as one slip. */
    if (length >= 2 && !strncmp(given, candidate, length)) distance = 1;
    size_t limit = length <= 3 ? 1 : length <= 6 ? 2 : 3;
    if (distance <= limit && (!best->name || distance < best->distance)) {
        best->name = candidate;
        best->distance = distance;
    }
}

/* ---- fastText ---- */

typedef struct foreign {
    const char *name, *here;
} foreign;

static const foreign fasttext_options[] = {
    {"input", "the file stands by itself: qkv train classify TRAIN [DEV] -o MODEL"},
    {"output", "did you mean -o MODEL?"},
    {"lr", "did you mean --lr? (peak rate of another network: 0.0005 here, where fastText has 0.1)"},
    {"epoch", "did you mean --epochs?"},
    {"dim", "did you mean --dim?"},
    {"wordNgrams", "did you mean --ngrams?"},
    {"minCount", "did you mean --ngram-min-rows? (texts that a run of words must be in)"},
    {"loss", "there is one: softmax; --multi-label is fastText's ova"},
    {"label", "did you mean --label-prefix?"},
    {"thread", "did you mean --threads?"},
    {"seed", "did you mean --seed?"},
    {"minn", "the tokenizer learns pieces of words by itself: --tokenizer, --vocab"},
    {"maxn", "the tokenizer learns pieces of words by itself: --tokenizer, --vocab"},
    {"bucket", "runs of words are not hashed into buckets: --ngram-min-rows bounds their number"},
    {"ws", "there is no window of words to predict; --ngrams sets the longest run of words"},
    {"neg", "there is no negative sampling"},
    {"t", "there is no sampling of words; --token-dropout is what comes near"},
    {"lrUpdateRate", "the rate changes at every step: --schedule"},
    {"pretrainedVectors", "--pretrain learns from texts, --pretrain-text names a file of them"},
    {"saveOutput", "a model is one file"},
    {"verbose", "progress goes to standard error; 2> /dev/null silences it"},
    {"autotune-validation", "that is DEV: qkv train classify TRAIN DEV -o MODEL --autotune MINUTES"},
    {"autotune-duration", "did you mean --autotune MINUTES?"},
    {"autotune-metric", "did you mean --metric?"},
    {"autotune-modelsize", "there is none"},
};

static const foreign fasttext_verbs[] = {
    {"supervised", "train classify TRAIN [DEV] -o MODEL"},
    {"test-label", "test MODEL DATA"},
    {"predict-prob", "predict MODEL [FILE] --top K"},
    {"print-sentence-vectors", "embed MODEL [FILE]"},
};

static const char *find(const foreign *list, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i].name, name)) return list[i].here;
    return NULL;
}

#define FIND(list, name) find(list, sizeof list / sizeof *list, name)

int cli_is_fasttext(const char *name) { return name[0] && name[1] && FIND(fasttext_options, name); }

/* ---- the library ---- */

static int is_option(const char *name) {
    for (int v = 0; cli_verbs[v]; v++) {
        const qkv_option_table *table = cli_verbs[v]->table ? cli_verbs[v]->table() : NULL;
        for (size_t i = 0; i < cli_verbs[v]->count; i++)
            if (!strcmp(name, cli_verbs[v]->options[i].name)) return 1;
        for (size_t i = 0; table && i < table->count; i++)
            if (!strcmp(name, table->options[i].name)) return 1;
    }
    return 0;
}

void cli_name_options(char *message) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    for (char *word = message; *word;) {
        char name[64];
        const size_t length = strspn(word, letters);
        const int alone = (word == message || strchr(" (,", word[-1])) && strchr(" =,;)", word[length]); /* no part of a file's name */
        if (alone && length < sizeof name && memchr(word, '_', length)) {
            for (size_t i = 0; i < length; i++) name[i] = word[i] == '_' ? '-' : word[i];
            name[length] = 0;
            if (is_option(name)) memcpy(word, name, length);
        }
        word += length ? length : 1;
    }
}

/* ---- what is said ---- */

int cli_unknown_verb(const char *name) {
    nearest best = {0};
    const char *here = FIND(fasttext_verbs, name);
    if (here) return cli_wrong_use(NULL, "there is no verb '%s'; that is: qkv %s", name, here);
    for (int i = 0; cli_verbs[i]; i++) try_name(&best, name, cli_verbs[i]->name);
    if (best.name) return cli_wrong_use(NULL, "there is no verb '%s'; did you mean '%s'?", name, best.name);
    return cli_wrong_use(NULL, "there is no verb '%s'", name);
}

int cli_unknown_option(const cli_verb *verb, const char *dashes, const char *name, size_t length) {
    char given[64];
    nearest best = {0};
    snprintf(given, sizeof given, "%.*s", (int)(length < 60 ? length : 60), name);
    for (size_t i = 0; length > 1 && i < verb->count; i++) try_name(&best, given, verb->options[i].name);
    const qkv_option_table *table = verb->table ? verb->table() : NULL;
    for (size_t i = 0; length > 1 && table && i < table->count; i++) try_name(&best, given, table->options[i].name);
    const char *here = verb == &cli_train_classify ? FIND(fasttext_options, given) : NULL;
    if (here) return cli_wrong_use(verb, "there is no option %s%s; %s", dashes, given, here);
    if (best.name) return cli_wrong_use(verb, "there is no option %s%s; did you mean --%s?", dashes, given, best.name);
    return cli_wrong_use(verb, "there is no option %s%s", dashes, given);
}
