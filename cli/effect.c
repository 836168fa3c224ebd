/* An option that would have no effect is refused, not ignored: the tables say what each needs. */
#include "cli.h"

typedef struct setting {
    char text[QKV_OPTION_TEXT_SIZE], fallback[QKV_OPTION_TEXT_SIZE];
    int flag; /* yes or no */
} setting;

typedef struct state {
    const cli_verb *verb;
    const void *values, *options;
    const cli_facts *facts;
} state;

static void own_text(const cli_option *o, const void *values, setting *s) {
    const char *field = (const char *)values + o->offset;
    int64_t whole;
    double number;
    const char *text;
    snprintf(s->fallback, sizeof s->fallback, "%s", o->kind == CLI_FLAG ? "no" : o->fallback ? o->fallback : o->kind == CLI_TEXT ? "" : "0");
    s->flag = o->kind == CLI_FLAG;
    switch (o->kind) {
    case CLI_FLAG: snprintf(s->text, sizeof s->text, "%s", *(const int *)(const void *)field ? "yes" : "no"); break;
    case CLI_TEXT:
        memcpy(&text, field, sizeof text);
        snprintf(s->text, sizeof s->text, "%s", text ? text : "");
        break;
    case CLI_INT:
    case CLI_SEED:
        memcpy(&whole, field, sizeof whole);
        snprintf(s->text, sizeof s->text, "%lld", (long long)whole);
        break;
    case CLI_REAL:
        memcpy(&number, field, sizeof number);
        snprintf(s->text, sizeof s->text, "%.15g", number);
        break;
    case CLI_SPAN: break;
    }
}

/* The option's value and its default as text; 0 where the verb has no such option. */
static int look_up(const state *at, const char *name, setting *s) {
    const qkv_option_table *table = at->verb->table && at->options ? at->verb->table() : NULL;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; at->values && i < at->verb->count; i++) {
        if (strcmp(at->verb->options[i].name, name)) continue;
        own_text(&at->verb->options[i], at->values, s);
        return 1;
    }
    for (size_t i = 0; table && i < table->count; i++) {
        const qkv_option *o = &table->options[i];
        if (strcmp(o->name, name)) continue;
        qkv_options_text(o, at->options, s->text, sizeof s->text);
        snprintf(s->fallback, sizeof s->fallback, "%s", o->fallback);
        s->flag = o->type == QKV_OPTION_BOOL;
        return 1;
    }
    return 0;
}

static const char *fact(const cli_facts *facts, const char *name) {
    if (!facts) return NULL;
    return !strcmp(name, "labels") ? facts->labels : !strcmp(name, "multi-label") ? facts->multi_label : !strcmp(name, "pair") ? facts->pair : NULL;
}

static int is_set(const char *text) { return text[0] && strcmp(text, "0") && strcmp(text, "no") && strcmp(text, "none"); }

static int is_one_of(const char *text, const char *list) {
    const size_t n = strlen(text);
    for (; *list; list += strcspn(list, "|"), list += *list == '|')
        if (strcspn(list, "|") == n && !memcmp(list, text, n)) return 1;
    return 0;
}

/* "words|sentences|tokens" as people write it: "words, sentences or tokens". */
static void say_choices(const char *list, char *text, size_t size) {
    size_t at = 0;
    text[0] = 0;
    while (*list && at < size) {
        const size_t n = strcspn(list, "|");
        const char *next = list + n + (list[n] == '|');
        const char *between = !*next ? "" : next[strcspn(next, "|")] ? ", " : " or ";
        at += (size_t)snprintf(text + at, size - at, "%.*s%s", (int)n, list, between);
        list = next;
    }
}

/* One condition: "pretrain", "!steps", "average=ema". Met: 1; else 0 and why not. */
static int met(const state *at, const char *need, size_t length, char *why, size_t size) {
    char name[128], choices[128] = "";
    setting s;
    const int not = *need == '!';
    snprintf(name, sizeof name, "%.*s", (int)length - not, need + not);
    char *list = strchr(name, '=');
    if (list) *list++ = 0;
    if (!look_up(at, name, &s)) {
        const char *reason = fact(at->facts, name);
        if (reason) snprintf(why, size, ": %s", reason);
        return !reason;
    }
    if (not ? !is_set(s.text) : list ? is_one_of(s.text, list) : is_set(s.text)) return 1;
    if (strcmp(s.text, s.fallback)) /* somebody asked for what is in the way */
        snprintf(why, size, " with --%s%s%s%s", s.flag && !is_set(s.text) ? "no-" : "", name, s.flag ? "" : " ", s.flag ? "" : s.text);
    else {
        if (list) say_choices(list, choices, sizeof choices);
        snprintf(why, size, " without --%s%s%s", name, list ? " " : "", choices);
    }
    return 0;
}

/* One of several: "model=transformer,pooling=attention"; else why not the first. */
static int one_met(const state *at, const char *need, size_t length, char *why, size_t size) {
    char spare[320];
    size_t n = strcspn(need, ", ");
    if (met(at, need, n, why, size)) return 1;
    while (n < length) {
        const char *other = need + n + 1;
        const size_t more = strcspn(other, ", ");
        if (met(at, other, more, spare, sizeof spare)) return 1;
        n += 1 + more;
    }
    return 0;
}

static int all_met(const state *at, const char *needs, char *why, size_t size) {
    for (const char *need = needs; need && *need;) {
        const size_t length = strcspn(need, " ");
        if (!one_met(at, need, length, why, size)) return 0;
        need += length + strspn(need + length, " ");
    }
    return 1;
}

static const char *own_needs(const cli_verb *verb, const char *option) {
    for (const cli_need *n = verb->needs; n && n->option; n++)
        if (!strcmp(n->option, option)) return n->needs;
    return NULL;
}

int cli_takes(const cli_verb *verb, const qkv_option *option) {
    if (!verb->no_labels || !option->needs) return 1;
    return strncmp(option->needs, "labels", 6) && (verb->writes_labels || strncmp(option->needs, "multi-label", 11));
}

int cli_has_effect(const cli_verb *verb, const void *values, const void *options, const qkv_option *option) {
    char why[320];
    return all_met(&(state){verb, values, options, NULL}, option->needs, why, sizeof why);
}

static const char *value_of(const cli_args *args, const char *name) {
    const char *value = "";
    for (int i = 0; i < args->setting_count; i++)
        if (!strcmp(args->settings[i].name, name)) value = args->settings[i].value;
    return value;
}

/* A pattern sets the window that nobody gave, and to it a given one of all looks the same. */
static int check_window(const cli_verb *verb, const cli_args *args) {
    const char *pattern = value_of(args, "pattern");
    if (strcmp(value_of(args, "window"), "-1,-1") || !is_one_of(pattern, "local|global|alternating|sparse")) return CLI_GO_ON;
    return cli_wrong_use(verb, "--window -1,-1 and --pattern %s contradict each other: a window of all is none", pattern);
}

int cli_check_effects(const cli_verb *verb, const cli_args *args, const void *values, const void *options, const cli_facts *facts) {
    const state at = {verb, values, options, facts};
    const qkv_option_table *table = verb->table ? verb->table() : NULL;
    char why[320];
    for (size_t i = 0; i < verb->count; i++)
        if (args->given >> i & 1 && !all_met(&at, own_needs(verb, verb->options[i].name), why, sizeof why))
            return cli_wrong_use(verb, "--%s has no effect%s", verb->options[i].name, why);
    for (int i = 0; i < args->setting_count; i++)
        for (size_t k = 0; table && k < table->count; k++)
            if (!strcmp(table->options[k].name, args->settings[i].name) && !all_met(&at, table->options[k].needs, why, sizeof why))
                return cli_wrong_use(verb, "--%s has no effect%s", table->options[k].name, why);
    return check_window(verb, args);
}
