#include "data/options.h"

#include <string.h>

#define AT(field) offsetof(qkv_data_options, field)

static const qkv_option list[] = {QKV_DATA_OPTIONS(AT)};

const qkv_option_table qkv_data_table = {
    .name = "data",
    .options = list,
    .count = sizeof list / sizeof *list,
    .struct_size = sizeof(qkv_data_options),
};

static qkv_status check_choices(qkv_ctx *ctx, const qkv_data_options *o) {
    if (o->format < QKV_FORMAT_AUTO || o->format > QKV_FORMAT_TEXT)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "format=%d is no format", o->format);
    if (o->separator < QKV_SEPARATOR_AUTO || o->separator > QKV_SEPARATOR_TAB)
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "separator=%d is no separator", o->separator);
    if (strpbrk(o->label_separator, "\t\r\n\\"))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "label-separator: a tab, a line break or a backslash cannot separate labels");
    if (strpbrk(o->label_prefix, " \t\r\n"))
        return qkv_fail(ctx, QKV_BAD_ARGUMENT, "label-prefix=%s: white space ends a label, so none can be in its prefix",
                        o->label_prefix);
    return QKV_OK;
}

qkv_status qkv_data_options_fill(qkv_ctx *ctx, const qkv_data_options *given, qkv_data_options *o) {
    if (given)
        *o = *given;
    else
        memset(o, 0, sizeof *o);
    for (size_t i = 0; i < qkv_data_table.count; i++) {
        const qkv_option *option = &qkv_data_table.options[i];
        char *name = (char *)o + option->offset;
        if (option->type != QKV_OPTION_TEXT) continue;
        if (!memchr(name, 0, QKV_OPTION_TEXT_SIZE))
            return qkv_fail(ctx, QKV_BAD_ARGUMENT, "%s is not ended by a NUL", option->name);
        if (!name[0]) strcpy(name, option->fallback);
    }
    return check_choices(ctx, o);
}
