/* Matrices as text: a row a line, numbers that read back to the same float. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

static int is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* To the next number, over spaces and at most one comma: more of them, or one with no number before or after it, leave a
 * cell empty. NULL if one is, else where the number stands or the line ends. */
static const char *next_cell(const char *at, int first) {
    int commas = 0;
    for (; is_space(*at) || *at == ','; at++) {
        if (*at == ',' && (first || commas++)) return NULL;
    }
    return commas && (!*at || *at == '#') ? NULL : at;
}

/* Reads the numbers of one line to the end of the matrix. */
static int read_row(const char *path, int64_t line_number, const char *line, cli_matrix *m, int64_t *room, char *message,
                    size_t size) {
    int64_t count = 0, have = m->rows * m->cols;
    const char *at = line;
    for (;;) {
        at = next_cell(at, count == 0);
        if (!at) {
            snprintf(message, size, "%s:%lld: column %lld is empty", path, (long long)line_number, (long long)count + 1);
            return -1;
        }
        if (!*at || *at == '#') break;
        char *end;
        errno = 0;
        float x = strtof(at, &end);
        int length = (int)strcspn(at, " \t\r,");
        if (end == at || (*end && !is_space(*end) && *end != ',' && *end != '#')) {
            snprintf(message, size, "%s:%lld: '%.*s' is not a number", path, (long long)line_number, length > 40 ? 40 : length, at);
            return -1;
        }
        if (errno == ERANGE && isinf(x)) {
            snprintf(message, size, "%s:%lld: %.*s is too large for 32 bits", path, (long long)line_number,
                     length > 40 ? 40 : length, at);
            return -1;
        }
        if (have + count == *room) {
            *room = *room ? 2 * *room : 64;
            m->p = cli_grow(m->p, (size_t)*room * sizeof *m->p);
        }
        m->p[have + count++] = x;
        at = end;
    }
    if (count == 0) return 0; /* an empty line or a comment */
    if (m->rows && count != m->cols) {
        snprintf(message, size, "%s:%lld: %s, the rows above have %s", path, (long long)line_number, cli_of(count, "number").s,
                 cli_count(m->cols).s);
        return -1;
    }
    m->cols = count;
    m->rows++;
    return 0;
}

static int read_text(qkv_ctx *ctx, const char *path, cli_matrix *m, char *message, size_t size) {
    qkv_lines *lines = NULL;
    qkv_status status = qkv_lines_open(ctx, path, &lines);
    int64_t room = 0, length;
    const char *line = NULL;
    int failed = 0;
    while (status == QKV_OK && !failed) {
        status = qkv_lines_next(lines, &line, &length);
        if (status != QKV_OK || !line) break;
        int64_t number = qkv_lines_number(lines);
        if (number == 1 && length >= 6 && !memcmp(line, "\x93NUMPY", 6)) {
            snprintf(message, size, "%s: a .npy file can be read only by its name, not from a pipe", path);
            failed = 1;
        } else if (memchr(line, 0, (size_t)length)) {
            snprintf(message, size, "%s:%lld: a NUL byte: not a text file", path, (long long)number);
            failed = 1;
        } else {
            failed = read_row(path, number, line, m, &room, message, size) != 0;
        }
    }
    if (status != QKV_OK) snprintf(message, size, "%s", qkv_message(ctx));
    qkv_lines_close(lines);
    return status != QKV_OK || failed ? -1 : 0;
}

int cli_matrix_read(qkv_ctx *ctx, const char *path, cli_matrix *m, char *message, size_t size) {
    memset(m, 0, sizeof *m);
    struct stat st;
    /* Only a regular file can be looked at twice. */
    FILE *file = strcmp(path, "-") && !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    if (file) {
        char magic[6];
        int npy = fread(magic, 1, 6, file) == 6 && !memcmp(magic, "\x93NUMPY", 6);
        rewind(file);
        int failed = npy ? cli_npy_read(file, path, m, message, size) : 0;
        fclose(file);
        if (npy) return failed;
    }
    if (!read_text(ctx, path, m, message, size)) return 0;
    free(m->p);
    memset(m, 0, sizeof *m);
    return -1;
}

void cli_matrix_print(FILE *to, const float *p, int64_t rows, int64_t cols, int64_t row_stride) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) fprintf(to, "%s%s", j ? " " : "", cli_float(p[i * row_stride + j]).s);
        fputc('\n', to);
    }
}

json_t *cli_matrix_json(const float *p, int64_t rows, int64_t cols, int64_t row_stride) {
    json_t *list = json_array();
    for (int64_t i = 0; i < rows; i++) {
        json_t *row = json_array();
        for (int64_t j = 0; j < cols; j++) json_array_append_new(row, cli_json_float(p[i * row_stride + j]));
        json_array_append_new(list, row);
    }
    return list;
}
