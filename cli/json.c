/* JSON out: any bytes as text, any number as a number or null. */
#include "cli.h"

#include <math.h>

json_t *cli_json_text(const char *text, int64_t length) {
    json_t *plain = json_stringn(text, (size_t)length);
    if (plain) return plain;
    /* Not UTF-8: each byte beyond ASCII by its number. Not a replacement mark: different labels must stay different. */
    char *out = cli_alloc(4 * (size_t)length + 1);
    size_t n = 0;
    for (int64_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x80) {
            out[n++] = (char)c;
        } else {
            n += (size_t)sprintf(out + n, "\\x%02x", c);
        }
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

void cli_json_line(FILE *to, json_t *value, size_t flags) {
    char *text = value ? json_dumps(value, flags | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) {
        cli_say("out of memory (writing JSON)");
        exit(CLI_FAILED);
    }
    fputs(text, to);
    fputc('\n', to);
    free(text);
    json_decref(value);
}
