/* The options of data files, as lines of an option table: those that read files share them. */
#ifndef QKV_DATA_OPTIONS_H
#define QKV_DATA_OPTIONS_H

#include "base/ctx.h"
#include "qkv/data.h"

#define QKV_DATA_CHOICE(name, at, choices, needs, help) {name, QKV_OPTION_CHOICE, at, "auto", 0, 0, choices, "Data", help, needs}
#define QKV_DATA_TEXT(name, at, fallback, needs, help) {name, QKV_OPTION_TEXT, at, fallback, 0, 0, NULL, "Data", help, needs}

/* AT(field) is the offset of a field of the qkv_data_options in the table's struct. Of the needs, `labels`, `multi-label` and `pair` are
 * facts of the work at hand where they are no options. */
#define QKV_DATA_OPTIONS(AT)                                                                                                       \
    QKV_DATA_CHOICE("format", AT(format), "auto|tsv|fasttext|jsonl|csv|text", NULL,                                                \
                    "of the rows; auto: guessed from the first lines (text: a text a line, for predict)"),                         \
        QKV_DATA_CHOICE("separator", AT(separator), "auto|comma|semicolon|tab", "format=auto|csv", "between the columns of CSV"),  \
        QKV_DATA_TEXT("label-separator", AT(label_separator), ",", "multi-label", "between several labels in a column"),           \
        QKV_DATA_TEXT("label-prefix", AT(label_prefix), "__label__", "format=auto|fasttext", "what marks a label in fastText files"), \
        QKV_DATA_TEXT("label-field", AT(label_field), "label", "labels format=auto|jsonl", "of JSON lines"),                       \
        QKV_DATA_TEXT("text-field", AT(text_field), "text", "format=auto|jsonl", "of JSON lines"),                                 \
        QKV_DATA_TEXT("text-field-2", AT(text_field_2), "text2", "pair format=auto|jsonl", "of JSON lines, for pairs"),            \
        QKV_DATA_TEXT("label-column", AT(label_column), "label", "labels format=auto|csv", "of CSV, by its name in the header"),   \
        QKV_DATA_TEXT("text-column", AT(text_column), "text", "format=auto|csv", "of CSV, by its name in the header"),             \
        QKV_DATA_TEXT("text-column-2", AT(text_column_2), "text2", "pair format=auto|csv", "of CSV, for pairs")

extern const qkv_option_table qkv_data_table;

/* `given` (NULL: nothing was) with the defaults in the empty names. Refuses numbers that are no choice, a name without its
 * NUL, and a separator of labels with a tab, a line break or a backslash in it. */
qkv_status qkv_data_options_fill(qkv_ctx *ctx, const qkv_data_options *given, qkv_data_options *options) QKV_MUST_USE;

#endif
