/* Numbers and text for people: units, separators, columns. The program never calls setlocale, so the decimal point is
 * always '.' here. */
#include "cli.h"

#include <math.h>
#include <unistd.h>

cli_text cli_count(int64_t n) {
    cli_text t;
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), out = 0;
    for (int i = 0; i < length; i++) {
        int left = length - i;
        if (i && digits[i - 1] != '-' && left % 3 == 0) t.s[out++] = ',';
        t.s[out++] = digits[i];
    }
    t.s[out] = 0;
    return t;
}

cli_text cli_short(double x) {
    cli_text t;
    const double size = fabs(x);
    if (size >= 1000 && size < 1e15) return cli_count((int64_t)(x < 0 ? x - 0.5 : x + 0.5));
    if (!(size >= 1e-6 && size < 1000)) {
        snprintf(t.s, sizeof t.s, "%.4g", x);
        return t;
    }
    int decimals = 3;
    for (double from = 10; from <= size; from *= 10) decimals--;
    for (double from = 1; from > size; from /= 10) decimals++;
    int length = snprintf(t.s, sizeof t.s, "%.*f", decimals, x);
    while (decimals-- > 0 && t.s[length - 1] == '0') t.s[--length] = 0;
    if (t.s[length - 1] == '.') t.s[length - 1] = 0;
    return t;
}

cli_text cli_of(int64_t n, const char *one) {
    cli_text t;
    size_t length = strlen(one);
    const char *plural = n == 1 || n == -1 ? "" : length && one[length - 1] == 's' ? "es" : "s";
    snprintf(t.s, sizeof t.s, "%.26s %.8s%s", cli_count(n).s, one, plural);
    return t;
}

void cli_again(FILE *to, const char *join, int part, int64_t every, int64_t ffn_chunk) {
    if (every > 1) fprintf(to, "%sblocks computed again, %lld in a row", join, (long long)every);
    if (every == 1) fprintf(to, "%sblocks computed again", join);
    if (part) fprintf(to, "%s%snorms and activations computed again", join, part > 1 ? "queries, keys, values, " : "");
    if (ffn_chunk) fprintf(to, "%sfeed-forward by %s", join, cli_of(ffn_chunk, "row").s);
}

const char *cli_again_part(int part) { return part > 1 ? "attention" : part ? "pointwise" : "none"; }

static cli_text scaled(double n, double step, const char *const *prefix, int prefixes, const char *unit) {
    cli_text t;
    int i = 0;
    double x = n;
    while (fabs(x) >= 0.9995 * step && i + 1 < prefixes) {
        x /= step;
        i++;
    }
    int decimals = i == 0 && x == floor(x) ? 0 : fabs(x) < 9.995 ? 2 : fabs(x) < 99.95 ? 1 : 0;
    snprintf(t.s, sizeof t.s, "%.*f %s%s", decimals, x, prefix[i], unit);
    size_t length = strlen(t.s);
    if (length && t.s[length - 1] == ' ') t.s[length - 1] = 0;
    return t;
}

cli_text cli_bytes(double bytes) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
    return scaled(bytes, 1000, prefix, 6, "B");
}

cli_text cli_si(double n, const char *unit) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    return scaled(n, 1000, prefix, 7, unit);
}

cli_text cli_duration(double seconds) {
    cli_text t;
    if (!(seconds >= 0) || seconds > 1e9) {
        snprintf(t.s, sizeof t.s, "?");
    } else if (seconds < 0.9995) {
        snprintf(t.s, sizeof t.s, "%.0f ms", 1000 * seconds);
    } else if (seconds < 59.95) {
        snprintf(t.s, sizeof t.s, "%.1f s", seconds);
    } else if (seconds < 3599.5) {
        int s = (int)(seconds + 0.5);
        snprintf(t.s, sizeof t.s, "%d:%02d min", s / 60, s % 60);
    } else {
        long s = (long)(seconds + 0.5);
        snprintf(t.s, sizeof t.s, "%ld:%02ld:%02ld h", s / 3600, s / 60 % 60, s % 60);
    }
    return t;
}

cli_text cli_percent(double share) {
    cli_text t;
    if (isfinite(share)) {
        snprintf(t.s, sizeof t.s, "%.2f %%", 100 * share);
    } else {
        snprintf(t.s, sizeof t.s, "-");
    }
    return t;
}

cli_text cli_loss(double loss) {
    cli_text t;
    if (isnan(loss)) {
        snprintf(t.s, sizeof t.s, "-");
        return t;
    }
    snprintf(t.s, sizeof t.s, fabs(loss) < 1000 ? "%.4f" : "%.3e", loss);
    return t;
}

cli_text cli_float(float x) {
    cli_text t;
    if (isnan(x)) {
        snprintf(t.s, sizeof t.s, "nan");
    } else if (isinf(x)) {
        snprintf(t.s, sizeof t.s, x < 0 ? "-inf" : "inf");
    } else {
        for (int digits = 1; digits <= 9; digits++) {
            snprintf(t.s, sizeof t.s, "%.*g", digits, (double)x);
            if (strtof(t.s, NULL) == x) break;
        }
    }
    return t;
}

/* Nine digits of x as a whole number, x = digits * 10^(exponent - 8). -1: near enough to the middle between two that only exact
 * arithmetic knows which is nearer. Powers of ten up to 22 are exact, so `scaled` is rounded once. */
static int32_t nine_digits(double x, int *exponent) {
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int binary, e;
    frexp(x, &binary);
    e = (int)floor((binary - 1) * 0.30102999566398120); /* the exponent, or one below it */
    double scaled = e <= 8 ? x * ten[8 - e] : x / ten[e - 8];
    if (scaled >= 1e9) {
        e++;
        scaled = e <= 8 ? x * ten[8 - e] : x / ten[e - 8];
    }
    int32_t digits = (int32_t)scaled;
    double rest = scaled - digits;
    if (fabs(rest - 0.5) < 1e-5) return -1;
    digits += rest > 0.5;
    if (digits == 1000000000) {
        digits = 100000000;
        e++;
    }
    *exponent = e;
    return digits;
}

int cli_float9(float x, char to[24]) {
    const double size = fabs((double)x);
    int exponent = 0, n = 0, count = 9;
    const int32_t digits = size >= 1e-13 && size < 1e20 ? nine_digits(size, &exponent) : -1;
    if (digits < 0) return snprintf(to, 24, "%.9g", (double)x);
    char text[9];
    for (int32_t i = 9, left = digits; i-- > 0; left /= 10) text[i] = (char)('0' + left % 10);
    while (count > 1 && text[count - 1] == '0') count--;
    if (x < 0) to[n++] = '-';
    const int scientific = exponent < -4 || exponent >= 9;
    const int before = scientific ? 1 : exponent + 1; /* digits before the point; below 1: zeros behind it */
    if (before < 1) to[n++] = '0';
    if (before < 1) to[n++] = '.';
    for (int i = before; i < 0; i++) to[n++] = '0';
    for (int i = 0; i < count || i < before; i++) {
        if (i && i == before) to[n++] = '.';
        to[n++] = i < count ? text[i] : '0';
    }
    if (scientific) n += snprintf(to + n, (size_t)(24 - n), "e%+03d", exponent);
    to[n] = 0;
    return n;
}

/* The code point at s, its length in *used; -1 for what is not UTF-8 (one byte used). */
static int32_t code_point(const unsigned char *s, int64_t left, int *used) {
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    *used = 1;
    if (length == 0 || length > left) return -1;
    int32_t c = length == 1 ? s[0] : s[0] & (0xff >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return -1;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return -1;
    *used = length;
    return c;
}

static int columns(int32_t c) {
    if ((c >= 0x300 && c < 0x370) || (c >= 0x200b && c < 0x2010) || (c >= 0xfe00 && c < 0xfe10) || c == 0xfeff) return 0;
    if ((c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) || (c >= 0xac00 && c < 0xd7a4) || (c >= 0xf900 && c < 0xfb00) ||
        (c >= 0xfe30 && c < 0xfe70) || (c >= 0xff00 && c < 0xff61) || (c >= 0x1f300 && c < 0x1f650) ||
        (c >= 0x1f680 && c < 0x1faff) || (c >= 0x20000 && c < 0x3fffe))
        return 2;
    return 1;
}

/* Direction marks and the like could make a table lie about its content. */
static int hidden(int32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c < 0x202f) || (c >= 0x2066 && c < 0x206a);
}

static int as_bytes(const char *text, int count, char piece[24]) {
    int n = 0;
    for (int i = 0; i < count; i++) n += snprintf(piece + n, 24 - (size_t)n, "\\x%02X", (unsigned char)text[i]);
    return n;
}

int cli_escape(const char *text, int64_t left, char piece[24], int *used) {
    int32_t c = code_point((const unsigned char *)text, left, used);
    if (c <= 0) return as_bytes(text, 1, piece);
    memcpy(piece, c == '\\' ? "\\\\" : text, c == '\\' ? 2 : (size_t)*used);
    return c == '\\' ? 2 : *used;
}

/* One code point (or bad byte) of text as it is shown, its width in *wide; the bytes it takes in *used. */
static int visible(const char *text, int64_t left, char piece[24], int *wide, int *used) {
    int32_t c = code_point((const unsigned char *)text, left, used);
    if (c >= 0 && hidden(c)) return *wide = as_bytes(text, *used, piece);
    int bytes = cli_escape(text, left, piece, used);
    *wide = c > 0 && c != '\\' ? columns(c) : bytes;
    return bytes;
}

int cli_printable(const char *text, int64_t length, int most, char *out, size_t size) {
    char piece[24];
    int wide, used, width = 0;
    int64_t i = 0;
    if (most) { /* does it fit as it is? */
        for (; i < length && width <= most; i += used) {
            visible(text + i, length - i, piece, &wide, &used);
            width += wide;
        }
        if (width <= most) most = 0;
    }
    size_t n = 0;
    width = 0;
    for (i = 0; i < length; i += used) {
        int bytes = visible(text + i, length - i, piece, &wide, &used);
        if (n + (size_t)bytes + 3 > size || (most && width + wide + 2 > most)) {
            memcpy(out + n, "..", 2);
            n += 2;
            width += 2;
            break;
        }
        memcpy(out + n, piece, (size_t)bytes);
        n += (size_t)bytes;
        width += wide;
    }
    out[n] = 0;
    return width;
}

void cli_print_padded(FILE *to, const char *text, int width) {
    char out[512];
    int used = cli_printable(text, (int64_t)strlen(text), width, out, sizeof out);
    fprintf(to, "%s%*s", out, width > used ? width - used : 0, "");
}

int cli_is_terminal(FILE *stream) {
    int fd = fileno(stream);
    const char *term = getenv("TERM");
    return fd >= 0 && isatty(fd) && !(term && !strcmp(term, "dumb"));
}
