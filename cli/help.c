/* Help for people: everything is printed from the tables that the program itself reads. */
#include "cli.h"

#include <ctype.h>

#include "compare.h"
#include "manual.h"

enum { WIDTH = 80, MOST_LEFT = 30 };

const char *cli_type_name(qkv_option_type type, const char *choices) {
    switch (type) {
    case QKV_OPTION_INT:
        return "N";
    case QKV_OPTION_REAL:
        return "X";
    case QKV_OPTION_BOOL:
        return "yes|no";
    case QKV_OPTION_CHOICE:
        return choices;
    case QKV_OPTION_SPAN:
        return "L,R";
    case QKV_OPTION_SEED:
        return "N";
    case QKV_OPTION_TEXT:
        return "TEXT";
    case QKV_OPTION_SIZE:
        return "SIZE";
    }
    return "VALUE";
}

/* Writes words up to WIDTH; the next lines begin at `indent`. `column` is where the first word goes. */
static void wrapped(FILE *to, const char *text, size_t length, int column, int indent) {
    size_t i = 0;
    int first = 1;
    while (i < length) {
        size_t end = i;
        while (end < length && text[end] != ' ') end++;
        int width = (int)(end - i);
        if (!first && column + 1 + width > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
            first = 1;
        }
        fprintf(to, "%s%.*s", first ? "" : " ", width, text + i);
        column += width + (first ? 0 : 1);
        first = 0;
        i = end;
        while (i < length && text[i] == ' ') i++;
    }
    fputc('\n', to);
}

static void paragraphs(FILE *to, const char *text) {
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t length = end ? (size_t)(end - text) : strlen(text);
        wrapped(to, text, length, 0, 0);
        text += length + (end != NULL);
    }
}

static void option_line(FILE *to, const char *left, int column, const char *help, const char *fallback) {
    char text[1024];
    if (fallback && fallback[0]) {
        snprintf(text, sizeof text, "%s [%s]", help, fallback);
    } else {
        snprintf(text, sizeof text, "%s", help);
    }
    int used = fprintf(to, "  %s", left);
    if (used + 2 > column) {
        fprintf(to, "\n%*s", column, "");
    } else {
        fprintf(to, "%*s", column - used, "");
    }
    wrapped(to, text, strlen(text), column, column);
}

static void own_left(const cli_option *o, char *left, size_t size) {
    char letter[8] = "";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, size, "%s--%s%s%s", letter, o->name, o->kind == CLI_FLAG ? "" : " ", o->kind == CLI_FLAG ? "" : o->value);
}

void cli_option_left(const qkv_option *o, char *text, size_t size) {
    snprintf(text, size, "--%s %s", o->name, o->type == QKV_OPTION_CHOICE ? "NAME" : cli_type_name(o->type, NULL));
}

void cli_option_help(const qkv_option *o, char *text, size_t size) {
    snprintf(text, size, "%s", o->help);
    if (o->type != QKV_OPTION_CHOICE) return;
    size_t used = strlen(text);
    const char *between = ": ";
    for (const char *c = o->choices; *c && used < size;) {
        size_t length = strcspn(c, "|");
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", between, (int)length, c);
        between = ", ";
        c += length + (c[length] == '|');
    }
}

static int left_column(const cli_verb *verb) {
    size_t most = 0;
    char left[256];
    const qkv_option_table *table = verb->table ? verb->table() : NULL;
    for (size_t i = 0; i < verb->count; i++) {
        own_left(&verb->options[i], left, sizeof left);
        if (strlen(left) > most && strlen(left) <= MOST_LEFT - 4) most = strlen(left);
    }
    for (size_t i = 0; table && i < table->count; i++) {
        cli_option_left(&table->options[i], left, sizeof left);
        if (strlen(left) > most && strlen(left) <= MOST_LEFT - 4) most = strlen(left);
    }
    return (int)most + 4;
}

static int group_seen(const qkv_option_table *table, size_t at) {
    for (size_t i = 0; i < at; i++) {
        if (!strcmp(table->options[i].group, table->options[at].group)) return 1;
    }
    return 0;
}

static void library_options(FILE *to, const cli_verb *verb, int column) {
    const qkv_option_table *table = verb->table();
    char left[256], help[512];
    for (size_t i = 0; i < table->count; i++) {
        if (group_seen(table, i)) continue;
        const char *group = table->options[i].group;
        fprintf(to, "\n%c%s:\n", toupper((unsigned char)group[0]), group[0] ? group + 1 : "");
        for (size_t j = i; j < table->count; j++) {
            const qkv_option *o = &table->options[j];
            if (strcmp(o->group, group) || !cli_takes(verb, o)) continue;
            cli_option_left(o, left, sizeof left);
            cli_option_help(o, help, sizeof help);
            option_line(to, left, column, help, o->fallback);
        }
    }
}

/* ---- what --size sets, found by asking the library ---- */

typedef struct size_line {
    FILE *to;
    int column;
} size_line;

static void print_size(void *user, const char *name, const char *what) {
    size_line *l = user;
    option_line(l->to, name, l->column, what, NULL);
}

void cli_sizes(void (*item)(void *user, const char *name, const char *what), void *user) {
    static const char *const names[] = {"tiny", "small", "base"};
    const qkv_option_table *table = qkv_classify_options_table();
    qkv_ctx_options plain = {.struct_size = sizeof plain, .threads = 1, .isa = "scalar"};
    qkv_ctx *ctx = NULL;
    if (qkv_ctx_create(&plain, &ctx, NULL, 0) != QKV_OK) return;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        qkv_classify_options sized, usual;
        qkv_options_default(table, &sized);
        qkv_options_default(table, &usual);
        if (qkv_classify_options_size(ctx, &sized, names[n]) != QKV_OK) continue;
        char what[512] = "";
        size_t length = 0;
        int same = 1;
        for (size_t i = 0; i < table->count; i++) {
            static const char *const always[] = {"layers", "dim", "heads", "lr"};
            char a[64], b[64];
            qkv_options_text(&table->options[i], &sized, a, sizeof a);
            qkv_options_text(&table->options[i], &usual, b, sizeof b);
            int show = strcmp(a, b) != 0;
            same &= !show;
            for (size_t k = 0; k < sizeof always / sizeof *always; k++) show |= !strcmp(always[k], table->options[i].name);
            if (show && length < sizeof what)
                length +=
                    (size_t)snprintf(what + length, sizeof what - length, "%s%s %s", length ? ", " : "", table->options[i].name, a);
        }
        if (same && length < sizeof what) snprintf(what + length, sizeof what - length, " (the default)");
        item(user, names[n], what);
    }
    qkv_ctx_free(ctx);
}

/* ---- pages ---- */

static void lines_after_qkv(FILE *to, const char *lines, const char *before) {
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        fprintf(to, "%sqkv %.*s\n", before, (int)length, lines);
        lines += length + (lines[length] == '\n');
    }
}

void cli_help_verb(FILE *to, const cli_verb *verb) {
    char left[256];
    int column = left_column(verb);
    fputs("usage:\n", to);
    lines_after_qkv(to, verb->usage, "  ");
    fputc('\n', to);
    paragraphs(to, verb->about);
    if (verb->count) {
        fputs("\nOptions:\n", to);
        for (size_t i = 0; i < verb->count; i++) {
            const cli_option *o = &verb->options[i];
            own_left(o, left, sizeof left);
            option_line(to, left, column, o->help, o->fallback);
        }
        option_line(to, "-h, --help", column, "this text", NULL);
    }
    if (verb->table) library_options(to, verb, column);
    if (verb->table == qkv_classify_options_table) {
        size_line l = {to, column};
        fputs("\nSizes:\n", to);
        cli_sizes(print_size, &l);
    }
    if (verb->examples) {
        fputs("\nExamples:\n", to);
        lines_after_qkv(to, verb->examples, "  ");
    }
}

void cli_help_overview(FILE *to) {
    fputs("qkv: self-attention in C. Trains, tests and uses text classifiers on CPUs.\n\nusage:\n", to);
    for (int i = 0; cli_verbs[i]; i++) {
        const char *usage = cli_verbs[i]->usage;
        size_t length = strcspn(usage, "\n");
        const char *options = strstr(usage, " [options]");
        if (options && options < usage + length) length = (size_t)(options - usage);
        int used = fprintf(to, "  qkv %.*s", (int)length, usage);
        fprintf(to, "%*s%s\n", used < 45 ? 45 - used : 1, "", cli_verbs[i]->summary);
    }
    fputs("\nData is one row a line: label TAB text. Files may be gzip; - is standard input.\n"
          "'qkv help VERB' says more, 'qkv --version' gives the version.\n",
          to);
}

typedef struct help_values {
    int man;
} help_values;

static const cli_option help_options[] = {
    {"man", 0, CLI_FLAG, offsetof(help_values, man), NULL, NULL, 0, 0, "print the manual page (roff): qkv help --man | man -l -"},
};

/* `task` may be NULL: all of the verb. */
static int help_for(const char *name, const char *task) {
    const cli_verb *of_name = NULL;
    char tasks[256] = "";
    int found = 0;
    for (int i = 0; cli_verbs[i]; i++) {
        const cli_verb *v = cli_verbs[i];
        if (strcmp(v->name, name)) continue;
        of_name = v;
        size_t used = strlen(tasks);
        if (v->task) snprintf(tasks + used, sizeof tasks - used, " %s", v->task);
        const int experiment = task && v == &cli_compare && compare_known(task); /* its help is that of all */
        if (task && !experiment && (!v->task || strcmp(v->task, task))) continue;
        cli_help_verb(stdout, v);
        found = 1;
    }
    if (found) return CLI_DONE;
    if (of_name && tasks[0]) return cli_wrong_use(NULL, "%s has no task '%s'; it has:%s", name, task, tasks);
    if (of_name) return cli_wrong_use(NULL, "%s has no tasks; 'qkv help %s' is all", name, name);
    return cli_unknown_verb(name);
}

static int run_help(const cli_verb *verb, int argc, char **argv) {
    help_values values;
    cli_args args;
    int code = cli_parse(verb, argc, argv, 2, &values, &args);
    if (code != CLI_GO_ON) return code;
    code = CLI_DONE;
    if (values.man) {
        cli_manual(stdout);
    } else if (args.count == 0) {
        cli_help_overview(stdout);
    } else {
        code = help_for(args.words[0], args.count == 2 ? args.words[1] : NULL);
    }
    cli_args_free(&args);
    return code;
}

const cli_verb cli_help = {
    .name = "help",
    .bare = 1,
    .usage = "help [VERB]\nhelp --man",
    .summary = "how a verb is used",
    .about = "Shows how a verb is used, with its options and their defaults in brackets.",
    .examples = "help train classify\nhelp --man > qkv.1",
    .options = help_options,
    .count = sizeof help_options / sizeof *help_options,
    .struct_size = sizeof(help_values),
    .run = run_help,
};
