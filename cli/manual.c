/* The manual page, in roff, from the same tables as the help. */
#include "manual.h"

#include <ctype.h>

#include "cli.h"

/* Text with what roff would read otherwise made plain. `start`: at the beginning of a line. */
static void plain(FILE *to, const char *text, size_t length, int start) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (start && (c == '.' || c == '\'')) fputs("\\&", to);
        start = c == '\n';
        if (c == '\\') {
            fputs("\\e", to);
        } else if (c == '-') {
            fputs("\\-", to);
        } else if (c == '\'') {
            fputs("\\(aq", to);
        } else if (c == '^') {
            fputs("\\(ha", to);
        } else if (c == '~') {
            fputs("\\(ti", to);
        } else {
            fputc(c, to);
        }
    }
}

static void plain_text(FILE *to, const char *text) {
    plain(to, text, strlen(text), 1);
}

static void example_lines(FILE *to, const char *lines) {
    fputs(".PP\n.nf\n", to);
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        fputs("    qkv ", to);
        plain(to, lines, length, 0);
        fputc('\n', to);
        lines += length + (lines[length] == '\n');
    }
    fputs(".fi\n", to);
}

static void paragraphs(FILE *to, const char *text) {
    fputs(".PP\n", to);
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length) {
            plain(to, text, length, 1);
            fputc('\n', to);
        } else {
            fputs(".PP\n", to);
        }
        text += length + (text[length] == '\n');
    }
}

static void item(FILE *to, char letter, const char *name, const char *value, const char *help, const char *fallback) {
    fputs(".TP\n", to);
    if (letter) fprintf(to, "\\fB\\-%c\\fR, ", letter);
    fputs("\\fB\\-\\-", to);
    plain(to, name, strlen(name), 0);
    fputs("\\fR", to);
    if (value) {
        fputs(" \\fI", to);
        plain(to, value, strlen(value), 0);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    plain_text(to, help);
    if (fallback && fallback[0]) {
        fputs(" [", to);
        plain(to, fallback, strlen(fallback), 0);
        fputs("]", to);
    }
    fputc('\n', to);
}

static void heading(FILE *to, const char *text) {
    fprintf(to, ".PP\n\\fB%c", toupper((unsigned char)text[0]));
    if (text[0]) plain(to, text + 1, strlen(text + 1), 0);
    fputs("\\fR\n", to);
}

static void library_options(FILE *to, const cli_verb *verb) {
    const qkv_option_table *table = verb->table();
    char help[512];
    for (size_t i = 0; i < table->count; i++) {
        int seen = 0;
        for (size_t j = 0; j < i; j++) seen |= !strcmp(table->options[j].group, table->options[i].group);
        if (seen) continue;
        heading(to, table->options[i].group);
        for (size_t j = i; j < table->count; j++) {
            const qkv_option *o = &table->options[j];
            if (strcmp(o->group, table->options[i].group) || !cli_takes(verb, o)) continue;
            cli_option_help(o, help, sizeof help);
            item(to, 0, o->name, o->type == QKV_OPTION_CHOICE ? "NAME" : cli_type_name(o->type, NULL), help, o->fallback);
        }
    }
}

static void size_item(void *user, const char *name, const char *what) {
    FILE *to = user;
    fprintf(to, ".TP\n\\fB%s\\fR\n", name);
    plain_text(to, what);
    fputc('\n', to);
}

static void verb_section(FILE *to, const cli_verb *verb) {
    char title[64];
    fprintf(to, ".SS qkv %s\n", cli_verb_title(verb, title, sizeof title));
    paragraphs(to, verb->about);
    for (size_t i = 0; i < verb->count; i++) {
        const cli_option *o = &verb->options[i];
        item(to, o->letter, o->name, o->kind == CLI_FLAG ? NULL : o->value, o->help, o->fallback);
    }
    if (verb->table) library_options(to, verb);
    if (verb->table == qkv_classify_options_table) {
        heading(to, "sizes");
        cli_sizes(size_item, to);
    }
    if (verb->examples) {
        heading(to, "examples");
        example_lines(to, verb->examples);
    }
}

static const char data_text[] =
    "A data set is a text file with one row a line: label TAB text. The label is everything before the first tab, spaces "
    "included; the text may hold further tabs. Any bytes are legal in a text. CRLF counts as one line break, a byte order mark at "
    "the start is dropped. Files may be gzip (recognised by their first bytes), and - is standard input.\n\n"
    "A model is one safetensors file: weights, and as metadata the configuration, the tokenizer, the labels and the training "
    "record. It is written beside its place and renamed, so a kill at any moment leaves the old file or the new one.";

static const char same_text[] =
    "The same data, options and seed give the same model, bit for bit, for any number of threads and on every instruction set. The "
    "answer to a text does not depend on the texts around it.";

static const char signal_text[] =
    "While training, the first SIGINT (Ctrl-C), SIGTERM or SIGHUP lets the step end and saves the best weights so far; a second "
    "one, half a second later or more, ends at once without damage to any file. While the data is still waited for, read or cut "
    "into tokens there is nothing to save: the first one ends the program, and no model is written.";

static void exit_status(FILE *to) {
    static const char *const codes[][2] = {
        {"0", "the work is done"},
        {"1", "the work failed: a file, its content, memory, a training that diverged"},
        {"2", "wrong use: an unknown option, a value out of range, options that contradict each other"},
        {"130, 143, 129", "ended by SIGINT, SIGTERM or SIGHUP (training: after saving, if anything was trained)"},
        {"141", "who read the output has closed it"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) fprintf(to, ".TP\n.B %s\n%s\n", codes[i][0], codes[i][1]);
}

void cli_manual(FILE *to) {
    fprintf(to, ".TH QKV 1 \"\" \"qkv %s\" \"User Commands\"\n", qkv_version_string());
    fputs(".SH NAME\nqkv \\- train, test and use text classifiers with self\\-attention on CPUs\n.SH SYNOPSIS\n.nf\n", to);
    for (int i = 0; cli_verbs[i]; i++) {
        const char *usage = cli_verbs[i]->usage;
        while (*usage) {
            size_t length = strcspn(usage, "\n");
            fputs("\\fBqkv\\fR ", to);
            plain(to, usage, length, 0);
            fputc('\n', to);
            usage += length + (usage[length] == '\n');
        }
    }
    fputs("\\fBqkv\\fR \\-\\-version\n.fi\n.SH DESCRIPTION\n", to);
    plain_text(to, "Results go to standard output, everything else to standard error. The decimal point is '.' in every locale.");
    fputs("\n.SH VERBS\n", to);
    for (int i = 0; cli_verbs[i]; i++) verb_section(to, cli_verbs[i]);
    fputs(".SH DATA AND MODELS\n", to);
    paragraphs(to, data_text);
    fputs(".SH REPEATING A RUN\n", to);
    paragraphs(to, same_text);
    fputs(".SH SIGNALS\n", to);
    paragraphs(to, signal_text);
    fputs(".SH ENVIRONMENT\n.TP\n.B QKV_ISA\n", to);
    plain_text(to, "scalar, avx2, avx512 or neon: forces one instruction set; one that this machine does not have is an error that "
                   "lists those present");
    fputs("\n.SH EXIT STATUS\n", to);
    exit_status(to);
}
