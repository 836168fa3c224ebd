/* qkv attend: a worked example, a calculator, and the weights of a trained model. */
#include "attend.h"

enum { MOST_WINDOW = 1 << 24 }; /* as in a model */

static const cli_option options[] = {
    {"example", 0, CLI_FLAG, offsetof(attend_values, example), NULL, NULL, 0, 0, "a worked example, step by step"},
    {"q", 0, CLI_TEXT, offsetof(attend_values, q), "FILE", NULL, 0, 0,
     "queries: a row a line, or .npy (float32 or float64); - is standard input"},
    {"k", 0, CLI_TEXT, offsetof(attend_values, k), "FILE", NULL, 0, 0, "keys"},
    {"v", 0, CLI_TEXT, offsetof(attend_values, v), "FILE", NULL, 0, 0, "values; as many rows as keys"},
    {"heads", 0, CLI_INT, offsetof(attend_values, heads), "N", "1", 1, 1e9, "heads side by side in a row of queries"},
    {"kv-heads", 0, CLI_INT, offsetof(attend_values, kv_heads), "N", "0", 0, 1e9,
     "heads of keys and values, a divisor of heads; 0: as heads, 1: multi-query"},
    {"causal", 0, CLI_FLAG, offsetof(attend_values, causal), NULL, NULL, 0, 0,
     "a query sees itself and what stands to its left; the last query stands at the last key"},
    {"window", 0, CLI_SPAN, offsetof(attend_values, window), "L,R", "-1,-1", 0, 0,
     "neighbours a query sees to its left and right besides itself; -1: no limit"},
    {"scale", 0, CLI_REAL, offsetof(attend_values, scale), "X", "0", -1e30, 1e30,
     "what a score is multiplied by; 0: 1/sqrt(width of a head)"},
    {"weights", 0, CLI_FLAG, offsetof(attend_values, weights), NULL, NULL, 0, 0, "print the weights too, head by head"},
    {"lse", 0, CLI_FLAG, offsetof(attend_values, lse), NULL, NULL, 0, 0,
     "print the log of the sum of exp(score) too: a row a query, a column a head"},
    {"layer", 0, CLI_INT, offsetof(attend_values, layer), "L", "0", 0, 1e9, "of the model, from 0"},
    {"head", 0, CLI_INT, offsetof(attend_values, head), "H", "0", 0, 1e9, "of that layer, from 0"},
    CLI_READING_OPTIONS(offsetof(attend_values, reading)),
    {"json", 0, CLI_FLAG, offsetof(attend_values, json), NULL, NULL, 0, 0,
     "print one JSON object; a number that JSON does not have (nan, inf) is null there"},
    {"threads", 0, CLI_INT, offsetof(attend_values, threads), "N", "0", 0, 1024, "threads; 0: every core allowed"},
};

/* Which options go with which of the three kinds; the others would be ignored. */
static int check_given(const cli_verb *verb, const cli_args *args, int example, int files) {
    static const char *const kinds[] = {"--example", "--q, --k and --v", "MODEL"};
    static const char *const fit[] = {" example json threads ",
                                      " q k v heads kv-heads causal window scale weights lse json threads ",
                                      " layer head max-length position-beyond rope-stretch rope-factor json threads "};
    int kind = example ? 0 : files ? 1 : 2;
    for (size_t i = 0; i < verb->count; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", verb->options[i].name);
        if (!(args->given >> i & 1) || strstr(fit[kind], word)) continue;
        return cli_wrong_use(verb, "--%s does not go with %s", verb->options[i].name, kinds[kind]);
    }
    return CLI_GO_ON;
}

static int attend(const cli_verb *verb, const attend_values *values, const cli_args *args) {
    int files = values->q || values->k || values->v;
    if (values->example + files + (args->count > 0) != 1)
        return cli_wrong_use(verb, "one of the three is needed: --example; --q, --k and --v; MODEL and a text");
    if (files && !(values->q && values->k && values->v))
        return cli_wrong_use(verb, "--%s FILE is missing: --q, --k and --v are needed", !values->q ? "q" : !values->k ? "k" : "v");
    if (args->count == 1) return cli_wrong_use(verb, "which text? qkv attend %s \"some words\"", args->words[0]);
    qkv_ctx *ctx = NULL;
    int code = check_given(verb, args, values->example, files);
    if (code != CLI_GO_ON) return code;
    if (values->window.left > MOST_WINDOW || values->window.right > MOST_WINDOW)
        return cli_wrong_use(verb, "--window=%lld,%lld: the most is %d, -1 is no limit", (long long)values->window.left,
                             (long long)values->window.right, MOST_WINDOW);
    if (values->causal && values->window.right > 0)
        return cli_wrong_use(verb, "--causal and --window %lld,%lld contradict each other: a causal row sees nothing to its right",
                             (long long)values->window.left, (long long)values->window.right);
    code = cli_open(verb, values->threads, 0, NULL, &ctx);
    if (code != CLI_GO_ON) return code;
    if (values->example) {
        code = attend_example(ctx, values);
    } else if (files) {
        code = attend_files(verb, ctx, values);
    } else {
        code = attend_model(verb, ctx, values, args->words[0], args->words[1]);
    }
    qkv_ctx_free(ctx);
    return code;
}

static int run_attend(const cli_verb *verb, int argc, char **argv) {
    attend_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;
    code = attend(verb, &values, &args);
    cli_args_free(&args);
    return code;
}

const cli_verb cli_attend = {
    .name = "attend",
    .usage = "attend --example\nattend --q FILE --k FILE --v FILE [options]\nattend MODEL \"text\" [--layer L] [--head H] [--json]",
    .summary = "attention step by step",
    .about = "softmax(scale * Q K^T) V, worked out.\n\n"
             "--example shows every step of a small example. With --q, --k and --v it computes the attention of matrices of yours: "
             "the output, a row a line, in numbers that read back to the same float; with --weights or --lse a line # name stands "
             "before each part. With MODEL it prints the weights of one head for a text, a row for each token that looks.",
    .examples = "attend --example\n"
                "attend --q q.txt --k k.txt --v v.npy --heads 2 --causal --weights\n"
                "attend news.model \"rates rise again\" --layer 0 --head 1",
    .options = options,
    .count = sizeof options / sizeof *options,
    .struct_size = sizeof(attend_values),
    .run = run_attend,
};
