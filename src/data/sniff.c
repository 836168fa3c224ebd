#include "data/sniff.h"

#include <stdio.h>
#include <string.h>

typedef struct magic {
    const char *bytes;
    int64_t size;
    const char *name;
} magic;

/* Printable ones could begin a label: they count only where the line is no row. */
static const magic magics[] = {
    {"\x7F"
     "ELF",
     4, "an ELF program"},
    {"\x1F\x8B\x08", 3, "gzip inside gzip: unpack it once"},
    {"PK\x03\x04", 4, "a zip archive (or an office document)"},
    {"\x89PNG", 4, "a PNG picture"},
    {"\xFF\xD8\xFF", 3, "a JPEG picture"},
    {"\xFD"
     "7zXZ",
     5, "an xz file: unpack it first"},
    {"\x28\xB5\x2F\xFD", 4, "a zstd file: unpack it first"},
    {"7z\xBC\xAF", 4, "a 7z archive"},
    {"SQLite format 3\0", 16, "an SQLite database"},
    {"\xD0\xCF\x11\xE0", 4, "an old office document"},
    {"PAR1", 4, "a Parquet file"},
    {"%PDF-", 5, "a PDF document"},
    {"BZh", 3, "a bzip2 file: unpack it first"},
    {"GIF8", 4, "a GIF picture"},
};

static bool printable(const char *bytes, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        if (bytes[i] < 32 || bytes[i] > 126) return false;
    return true;
}

/* A row has a label before a tab, and nobody writes control characters into a label. */
static bool is_row(const char *line, int64_t length) {
    const char *tab = memchr(line, '\t', (size_t)length);
    if (!tab || tab == line) return false;
    for (const char *p = line; p < tab; p++)
        if ((unsigned char)*p < 32 || *p == 127) return false;
    return true;
}

/* 'l' little-endian, 'b' big-endian, 0 neither. Latin letters in UTF-16 are a NUL in every other byte. */
static char utf16(const char *line, int64_t length) {
    int64_t zeros[2] = {0, 0};
    if (length >= 2 && line[0] == '\xFF' && line[1] == '\xFE') return 'l';
    if (length >= 2 && line[0] == '\xFE' && line[1] == '\xFF') return 'b';
    if (length < 6) return 0;
    for (int64_t i = 0; i < length; i++) zeros[i & 1] += line[i] == 0;
    for (int odd = 0; odd < 2; odd++)
        if (5 * zeros[odd] >= 2 * length && 20 * zeros[!odd] <= length) return odd ? 'l' : 'b';
    return 0;
}

static int64_t controls(const char *line, int64_t length) {
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)line[i];
        count += c == 127 || (c < 32 && c != 27 && (c < '\t' || c > '\r'));
    }
    return count;
}

bool qkv_sniff(const char *line, int64_t length, char *what, size_t size) {
    if (length > 4096) length = 4096;
    char order = utf16(line, length);
    bool row = is_row(line, length);
    if (order) {
        bool little = order == 'l';
        snprintf(what, size, "UTF-16 text (%s-endian): convert it with iconv -f UTF-16%s -t UTF-8", little ? "little" : "big",
                 little ? "LE" : "BE");
        return true;
    }
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const magic *m = &magics[i];
        if (length < m->size || memcmp(line, m->bytes, (size_t)m->size) != 0 || (row && printable(m->bytes, m->size))) continue;
        snprintf(what, size, "%s", m->name);
        return true;
    }
    if (length >= 9 && line[8] == '{' && memcmp(line + 5, "\0\0\0", 3) == 0) {
        snprintf(what, size, "a safetensors file (a model?)");
        return true;
    }
    int64_t strange = controls(line, length);
    if (!row && strange >= 4 && 10 * strange > length) {
        snprintf(what, size, "binary data (%lld control characters in the first %lld bytes)", (long long)strange,
                 (long long)length);
        return true;
    }
    return false;
}
