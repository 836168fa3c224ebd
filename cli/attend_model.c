/* The weights of one head of a trained model, with the tokens. */
#include "attend.h"

typedef struct shown {
    const qkv_model *model;
    const char *text;
    qkv_token *tokens;
    int64_t count, full_count;
    float *weights;
} shown;

/* The token as it stands in the text; a special one by its name. Spaces are made visible. */
static int token_text(const shown *s, int64_t i, int most, char *out, size_t size) {
    const qkv_token *t = &s->tokens[i];
    int64_t length = t->end - t->begin;
    const char *piece = s->text + t->begin;
    if (length == 0) piece = qkv_tokenizer_piece(qkv_model_tokenizer(s->model), t->id, &length);
    char copy[64];
    if (length > (int64_t)sizeof copy) length = sizeof copy;
    for (int64_t j = 0; j < length; j++) copy[j] = piece[j] == ' ' ? '_' : piece[j];
    return cli_printable(copy, length, most, out, size);
}

static void print(const shown *s, const attend_values *values) {
    enum { MOST_LEFT = 16, CELL = 7 };
    char out[256];
    int left = 5;
    for (int64_t i = 0; i < s->count; i++) {
        int width = token_text(s, i, MOST_LEFT, out, sizeof out);
        if (width > left) left = width;
    }
    printf("layer %lld, head %lld: each row says how a token spreads its attention; a row adds up to 1\n\n",
           (long long)values->layer, (long long)values->head);
    printf("%*s", left, "");
    for (int64_t j = 0; j < s->count; j++) {
        int width = token_text(s, j, CELL, out, sizeof out);
        printf(" %*s%s", CELL - width, "", out);
    }
    putchar('\n');
    for (int64_t i = 0; i < s->count; i++) {
        int width = token_text(s, i, MOST_LEFT, out, sizeof out);
        printf("%s%*s", out, left - width, "");
        for (int64_t j = 0; j < s->count; j++) printf(" %*.3f", CELL, (double)s->weights[i * s->count + j]);
        putchar('\n');
    }
}

static json_t *to_json(const shown *s, const attend_values *values) {
    json_t *tokens = json_array();
    for (int64_t i = 0; i < s->count; i++) {
        const qkv_token *t = &s->tokens[i];
        int64_t length = t->end - t->begin;
        const char *piece = s->text + t->begin;
        if (length == 0) piece = qkv_tokenizer_piece(qkv_model_tokenizer(s->model), t->id, &length);
        json_array_append_new(tokens, json_pack("{s:o, s:I, s:I, s:I}", "text", cli_json_text(piece, length), "id",
                                                (json_int_t)t->id, "begin", (json_int_t)t->begin, "end", (json_int_t)t->end));
    }
    return json_pack("{s:I, s:I, s:I, s:o, s:o}", "layer", (json_int_t)values->layer, "head", (json_int_t)values->head,
                     "tokens_before_cut", (json_int_t)s->full_count, "tokens", tokens, "weights",
                     cli_matrix_json(s->weights, s->count, s->count, s->count));
}

static qkv_status compute(shown *s, const attend_values *values) {
    int64_t length = (int64_t)strlen(s->text);
    qkv_status status = qkv_model_tokens(s->model, s->text, length, &s->tokens, &s->count, &s->full_count);
    if (status != QKV_OK) return status;
    s->weights = cli_alloc((size_t)s->count * (size_t)s->count * sizeof *s->weights);
    return qkv_model_attention(s->model, s->text, length, values->layer, values->head, s->weights);
}

int attend_model(const cli_verb *verb, qkv_ctx *ctx, const attend_values *values, const char *path, const char *text) {
    qkv_model *model = NULL;
    shown s = {.text = text};
    qkv_status status = qkv_model_load(ctx, path, &model);
    s.model = model;
    int code = status == QKV_OK ? cli_set_reading(verb, ctx, model, path, &values->reading) : cli_fail(ctx, status);
    if (code == CLI_GO_ON) {
        status = compute(&s, values);
        code = status == QKV_OK ? CLI_DONE : cli_fail(ctx, status);
    }
    if (code == CLI_DONE && s.count < s.full_count)
        cli_say("warning: the text has %s; the model reads the first %s", cli_of(s.full_count, "token").s, cli_count(s.count).s);
    if (code == CLI_DONE && s.count == 0) cli_say("the text has no tokens: there are no weights to show");
    if (code == CLI_DONE && values->json) cli_json_line(stdout, to_json(&s, values), JSON_COMPACT);
    if (code == CLI_DONE && !values->json && s.count > 0) print(&s, values);
    qkv_release(ctx, s.tokens);
    free(s.weights);
    qkv_model_free(model);
    return code;
}
