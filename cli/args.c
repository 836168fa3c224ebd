/* The one reader of command lines, driven by the option tables of the verbs. */
#include "cli.h"

#include <ctype.h>
#include <stdarg.h>
#include <unistd.h>

const char *cli_verb_title(const cli_verb *verb, char *text, size_t size) {
    snprintf(text, size, "%s%s%s", verb->name, verb->task ? " " : "", verb->task ? verb->task : "");
    return text;
}

int cli_wrong_use(const cli_verb *verb, const char *format, ...) {
    char title[64] = "";
    if (verb) cli_verb_title(verb, title, sizeof title);
    va_list args;
    va_start(args, format);
    cli_say_of(title, format, args);
    va_end(args);
    fprintf(stderr, "'qkv help%s%s' shows how it is used.\n", verb ? " " : "", title);
    return CLI_WRONG_USE;
}

/* ---- one option ---- */

typedef struct reader {
    const cli_verb *verb;
    int argc, next;
    char **argv;
    char *values;
    qkv_ctx *ctx; /* for messages about numbers */
    cli_args *args;
} reader;

static const cli_option *own_option(const cli_verb *verb, const char *name, size_t length) {
    for (size_t i = 0; i < verb->count; i++) {
        if (strlen(verb->options[i].name) == length && !memcmp(verb->options[i].name, name, length)) return &verb->options[i];
    }
    return NULL;
}

static const qkv_option *library_option(const cli_verb *verb, const char *name, size_t length) {
    const qkv_option_table *table = verb->table ? verb->table() : NULL;
    for (size_t i = 0; table && i < table->count; i++) {
        if (strlen(table->options[i].name) == length && !memcmp(table->options[i].name, name, length)) return &table->options[i];
    }
    return NULL;
}

static int set_own(reader *r, const cli_option *option, const char *value) {
    char *field = r->values + option->offset;
    if (option->kind == CLI_FLAG) {
        *(int *)(void *)field = 1;
        return CLI_GO_ON;
    }
    if (option->kind == CLI_TEXT) {
        memcpy(field, &value, sizeof value);
        return CLI_GO_ON;
    }
    static const qkv_option_type type[] = {
        [CLI_INT] = QKV_OPTION_INT, [CLI_REAL] = QKV_OPTION_REAL, [CLI_SPAN] = QKV_OPTION_SPAN, [CLI_SEED] = QKV_OPTION_SEED};
    const qkv_option one = {option->name, type[option->kind], option->offset, option->fallback ? option->fallback : "0",
                            option->min,  option->max,        NULL,           "",
                            option->help, NULL};
    const qkv_option_table table = {r->verb->name, &one, 1, r->verb->struct_size};
    if (qkv_options_set(r->ctx, &table, r->values, option->name, value) != QKV_OK)
        return cli_wrong_use(r->verb, "--%s", qkv_message(r->ctx)); /* "threads=x: expected ..." */
    return CLI_GO_ON;
}

/* The word after an option is its value, unless it looks like an option itself: `--output --threads 2` is a slip. */
static const char *following_value(reader *r) {
    if (r->next >= r->argc || !strncmp(r->argv[r->next], "--", 2)) return NULL;
    return r->argv[r->next++];
}

static int needs_value(const reader *r, const char *name, const char *value) {
    return cli_wrong_use(r->verb, "--%s needs a value: --%s %s", name, name, value);
}

/* A bare yes/no option means yes. The word after it is its value if it can be one, and else must be something else. */
static int bool_value(reader *r, const qkv_option *option, const char **value) {
    static const char *const known[] = {"yes", "no", "true", "false", "on", "off", "1", "0"};
    *value = "yes";
    if (r->next >= r->argc) return CLI_GO_ON;
    const char *word = r->argv[r->next];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word, known[i])) continue;
        *value = known[i];
        r->next++;
        return CLI_GO_ON;
    }
    if (word[0] == '-' || !access(word, F_OK)) return CLI_GO_ON;
    return cli_wrong_use(r->verb, "--%s=%s: expected yes or no (and there is no file '%s')", option->name, word, word);
}

static void mark_given(reader *r, const cli_option *option) {
    r->args->given |= (uint64_t)1 << (option - r->verb->options);
}

static int long_option(reader *r, const char *text) {
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    const char *value = equals ? equals + 1 : NULL;
    const cli_option *own = own_option(r->verb, text, length);
    if (own) mark_given(r, own);
    if (own && own->kind == CLI_FLAG) {
        if (value) return cli_wrong_use(r->verb, "--%s takes no value", own->name);
        return set_own(r, own, NULL);
    }
    if (own) {
        if (!value) value = following_value(r);
        if (!value) return needs_value(r, own->name, own->value);
        return set_own(r, own, value);
    }
    const qkv_option *option = library_option(r->verb, text, length);
    if (!option && !value && !strncmp(text, "no-", 3)) {
        option = library_option(r->verb, text + 3, length - 3);
        if (option && option->type != QKV_OPTION_BOOL) option = NULL;
        if (option) value = "no";
    }
    if (!option) return cli_unknown_option(r->verb, "--", text, length);
    if (!value && option->type == QKV_OPTION_BOOL) {
        int code = bool_value(r, option, &value);
        if (code != CLI_GO_ON) return code;
    }
    if (!value) value = following_value(r);
    if (!value) return needs_value(r, option->name, cli_type_name(option->type, option->choices));
    r->args->settings[r->args->setting_count++] = (cli_setting){option->name, value};
    return CLI_GO_ON;
}

static int short_option(reader *r, const char *text) {
    if (cli_is_fasttext(text)) return cli_unknown_option(r->verb, "-", text, strlen(text)); /* -output is not -o utput */
    for (size_t i = 0; i < r->verb->count; i++) {
        const cli_option *option = &r->verb->options[i];
        if (!option->letter || option->letter != text[0]) continue;
        mark_given(r, option);
        if (option->kind == CLI_FLAG) {
            if (text[1]) break;
            return set_own(r, option, NULL);
        }
        const char *value = text[1] ? text + 1 + (text[1] == '=') : following_value(r);
        if (!value) return needs_value(r, option->name, option->value);
        return set_own(r, option, value);
    }
    return cli_unknown_option(r->verb, "-", text, strlen(text));
}

/* ---- the whole line ---- */

static int parse(reader *r, int most_words) {
    for (size_t i = 0; i < r->verb->count; i++) {
        const cli_option *option = &r->verb->options[i];
        if (option->fallback && option->kind != CLI_FLAG) {
            int code = set_own(r, option, option->fallback);
            if (code != CLI_GO_ON) return code;
        }
    }
    int words_only = 0;
    while (r->next < r->argc) {
        const char *word = r->argv[r->next++];
        int code = CLI_GO_ON;
        if (words_only || word[0] != '-' || !word[1]) {
            if (r->args->count >= most_words) return cli_wrong_use(r->verb, "too many arguments: '%s'", word);
            r->args->words[r->args->count++] = word;
        } else if (!strcmp(word, "--")) {
            words_only = 1;
        } else if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            cli_help_verb(stdout, r->verb);
            return CLI_DONE;
        } else {
            code = word[1] == '-' ? long_option(r, word + 2) : short_option(r, word + 1);
        }
        if (code != CLI_GO_ON) return code;
    }
    return CLI_GO_ON;
}

int cli_parse(const cli_verb *verb, int argc, char **argv, int most_words, void *values, cli_args *args) {
    memset(args, 0, sizeof *args);
    memset(values, 0, verb->struct_size);
    args->settings = cli_alloc(sizeof *args->settings * ((size_t)argc + 1));
    reader r = {verb, argc, 0, argv, values, NULL, args};

    /* The plainest context there is: it only judges numbers here. */
    char message[256];
    qkv_ctx_options options = {.struct_size = sizeof options, .threads = 1, .isa = "scalar"};
    int code = CLI_FAILED;
    if (qkv_ctx_create(&options, &r.ctx, message, sizeof message) != QKV_OK) {
        cli_say("%s", message);
    } else {
        code = parse(&r, most_words);
    }
    qkv_ctx_free(r.ctx);
    if (code != CLI_GO_ON) cli_args_free(args);
    return code;
}

void cli_args_free(cli_args *args) {
    free(args->settings);
    args->settings = NULL;
}

int cli_apply_settings(const cli_verb *verb, qkv_ctx *ctx, const cli_args *args, void *options) {
    for (int i = 0; i < args->setting_count; i++) {
        if (qkv_options_set(ctx, verb->table(), options, args->settings[i].name, args->settings[i].value) != QKV_OK)
            return cli_wrong_use(verb, "--%s", qkv_message(ctx));
    }
    return CLI_GO_ON;
}

int cli_set_options(const cli_verb *verb, qkv_ctx *ctx, const cli_args *args, void *options) {
    qkv_options_default(verb->table(), options);
    return cli_apply_settings(verb, ctx, args, options);
}

int cli_given(const cli_verb *verb, const cli_args *args, const char *option) {
    for (size_t i = 0; i < verb->count; i++)
        if (!strcmp(verb->options[i].name, option)) return (int)(args->given >> i & 1);
    return 0;
}
