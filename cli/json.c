/* JSON out: any bytes as text, any number as a number or null. */
#include "cli.h"

#include <math.h>

json_t *cli_json_text(const char *text, int64_t length) {
    char *out = cli_alloc(4 * (size_t)length + 24);
    size_t n = 0;
    int used;
    for (int64_t i = 0; i < length; i += used) {
        char piece[24];
        size_t bytes = (size_t)cli_escape(text + i, length - i, piece, &used);
        memcpy(out + n, piece, bytes);
        n += bytes;
    }
    json_t *escaped = json_stringn(out, n);
    free(out);
    return escaped;
}

json_t *cli_json_real(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

/* The nearest double of the shortest decimal: printed with 9 digits it is that decimal again. */
json_t *cli_json_float(float x) {
    return isfinite(x) ? json_real(strtod(cli_float(x).s, NULL)) : json_null();
}

char *cli_json_print(json_t *value, size_t flags) {
    char *text = value ? json_dumps(value, flags | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) {
        cli_say("out of memory (writing JSON)");
        exit(CLI_FAILED);
    }
    json_decref(value);
    return text;
}

int cli_json_file(qkv_ctx *ctx, const char *path, json_t *value) {
    char *text = cli_json_print(value, JSON_INDENT(1));
    qkv_output *output = NULL;
    qkv_status status = qkv_output_open(ctx, path, &output);
    if (status == QKV_OK) status = qkv_output_write(output, text, (int64_t)strlen(text));
    if (status == QKV_OK) status = qkv_output_write(output, "\n", 1);
    if (status == QKV_OK)
        status = qkv_output_commit(output);
    else
        qkv_output_discard(output);
    free(text);
    return status == QKV_OK ? CLI_GO_ON : cli_fail(ctx, status);
}

void cli_json_line(FILE *to, json_t *value, size_t flags) {
    char *text = cli_json_print(value, flags);
    fputs(text, to);
    fputc('\n', to);
    free(text);
}
