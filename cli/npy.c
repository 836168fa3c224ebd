/* NumPy's .npy, versions 1 to 3: little-endian f4 or f8, two dimensions (one is read as one row), C order. */
#include "cli.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>

enum { MOST_HEADER = 1 << 20 };

void cli_npy_header(int64_t rows, int64_t cols, char header[CLI_NPY_HEADER]) {
    enum { START = 10 };
    char text[CLI_NPY_HEADER];
    int length = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }", (long long)rows,
                          (long long)cols);
    memset(header, ' ', CLI_NPY_HEADER);
    memcpy(header, "\x93NUMPY\x01\0", 8);
    header[8] = CLI_NPY_HEADER - START;
    header[9] = 0;
    memcpy(header + START, text, (size_t)length);
    header[CLI_NPY_HEADER - 1] = '\n';
}

static int __attribute__((format(printf, 3, 4))) bad(char *message, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, size, format, args);
    va_end(args);
    return -1;
}

/* What follows 'key': in the header's Python dictionary, or NULL. */
static const char *value_of(const char *header, const char *key) {
    char quoted[40];
    for (int i = 0; i < 2; i++) {
        snprintf(quoted, sizeof quoted, "%c%s%c", i ? '"' : '\'', key, i ? '"' : '\'');
        const char *at = strstr(header, quoted);
        if (!at) continue;
        at += strlen(quoted);
        while (*at == ' ') at++;
        if (*at++ != ':') continue;
        while (*at == ' ') at++;
        return at;
    }
    return NULL;
}

static const char *number(const char *at, int64_t *n) {
    if (!isdigit((unsigned char)*at)) return NULL;
    int64_t value = 0;
    for (; isdigit((unsigned char)*at); at++) {
        if (value > INT32_MAX) return NULL;
        value = 10 * value + (*at - '0');
    }
    while (*at == 'L' || *at == ' ') at++;
    *n = value;
    return at;
}

/* (2, 3) or (3,): rows and columns. */
static int shape_of(const char *at, int64_t *rows, int64_t *cols) {
    if (!at || *at++ != '(') return -1;
    while (*at == ' ') at++;
    *rows = 1;
    if (!(at = number(at, cols)) || *at++ != ',') return -1;
    while (*at == ' ') at++;
    if (*at == ')') return 0;
    *rows = *cols;
    if (!(at = number(at, cols))) return -1;
    if (*at == ',') at++;
    while (*at == ' ') at++;
    return *at == ')' ? 0 : -1;
}

static int read_header(FILE *file, const char *path, char *header, char *message, size_t size) {
    unsigned char start[12];
    if (fread(start, 1, 8, file) != 8) return bad(message, size, "%s: ends in the first 8 bytes of a .npy header", path);
    int version = start[6], bytes = version == 1 ? 2 : 4;
    if (version < 1 || version > 3) return bad(message, size, "%s: .npy version %d, known are 1 to 3", path, version);
    if (fread(start + 8, 1, (size_t)bytes, file) != (size_t)bytes)
        return bad(message, size, "%s: ends inside the .npy header", path);
    uint64_t length = start[8] | (uint64_t)start[9] << 8;
    if (bytes == 4) length |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    if (length >= MOST_HEADER)
        return bad(message, size, "%s: a .npy header of %s, the limit is %s", path, cli_of((int64_t)length, "byte").s,
                   cli_count(MOST_HEADER).s);
    if (fread(header, 1, length, file) != length) return bad(message, size, "%s: ends inside the .npy header", path);
    header[length] = 0;
    return 0;
}

static int64_t bytes_left(FILE *file) {
    long here = ftell(file);
    if (here < 0 || fseek(file, 0, SEEK_END)) return -1;
    long end = ftell(file);
    if (end < 0 || fseek(file, here, SEEK_SET)) return -1;
    return end - here;
}

static uint64_t little_endian(const unsigned char *b, int bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < bytes; i++) bits |= (uint64_t)b[i] << (8 * i);
    return bits;
}

static int read_numbers(FILE *file, const char *path, int bytes, cli_matrix *m, char *message, size_t size) {
    int64_t count = m->rows * m->cols;
    m->p = cli_alloc((size_t)count * sizeof *m->p);
    for (int64_t i = 0; i < count; i++) {
        unsigned char b[8];
        if (fread(b, 1, (size_t)bytes, file) != (size_t)bytes) return bad(message, size, "%s: cannot be read to its end", path);
        if (bytes == 4) {
            uint32_t bits = (uint32_t)little_endian(b, 4);
            memcpy(&m->p[i], &bits, 4);
            continue;
        }
        uint64_t bits = little_endian(b, 8);
        double x;
        memcpy(&x, &bits, 8);
        m->p[i] = (float)x;
        if (isfinite(x) && !isfinite(m->p[i]))
            return bad(message, size, "%s: row %lld, column %lld: %g is too large for 32 bits", path, (long long)(i / m->cols + 1),
                       (long long)(i % m->cols + 1), x);
    }
    return 0;
}

static int read_body(FILE *file, const char *path, const char *header, cli_matrix *m, char *message, size_t size) {
    const char *type = value_of(header, "descr"), *order = value_of(header, "fortran_order");
    if (!type || !order) return bad(message, size, "%s: the .npy header names no descr or no fortran_order", path);
    int quoted = *type == '\'' || *type == '"';
    int bytes = quoted && !strncmp(type + 1, "<f4", 3) ? 4 : quoted && !strncmp(type + 1, "<f8", 3) ? 8 : 0;
    if (!bytes || type[4] != *type)
        return bad(message, size, "%s: numbers of type %.*s; known are '<f4' and '<f8' (little-endian floats)", path,
                   (int)strcspn(type, ",}"), type);
    if (strncmp(order, "False", 5)) return bad(message, size, "%s: Fortran order; save it with numpy.ascontiguousarray", path);
    if (shape_of(value_of(header, "shape"), &m->rows, &m->cols))
        return bad(message, size, "%s: its shape is not that of a matrix: rows and columns are needed", path);
    int64_t left = bytes_left(file), most = left < 0 ? 0 : left / bytes;
    if (m->cols && m->rows > most / m->cols)
        return bad(message, size, "%s: %lld x %lld numbers of %d bytes are announced, %s follow", path, (long long)m->rows,
                   (long long)m->cols, bytes, cli_of(left, "byte").s);
    if (left != m->rows * m->cols * bytes)
        return bad(message, size, "%s: %s follow the header, %lld x %lld numbers need %s", path, cli_of(left, "byte").s,
                   (long long)m->rows, (long long)m->cols, cli_count(m->rows * m->cols * bytes).s);
    return read_numbers(file, path, bytes, m, message, size);
}

int cli_npy_read(FILE *file, const char *path, cli_matrix *m, char *message, size_t size) {
    memset(m, 0, sizeof *m);
    char *header = cli_alloc(MOST_HEADER + 1);
    int failed = read_header(file, path, header, message, size) || read_body(file, path, header, m, message, size);
    free(header);
    if (failed) {
        free(m->p);
        m->p = NULL;
    }
    return failed ? -1 : 0;
}
