/* Runs a fuzz target as an ordinary test: every file of the folders given, then a fixed number of mutations of each, drawn
 * from a fixed seed. A failure is a crash or a sanitizer's report. Built with -fsanitize=fuzzer the same target takes
 * libFuzzer's driver instead. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES_MAX = 4096, FILE_MAX = 1 << 22, MUTATIONS = 100 };

static uint64_t state = 1;

static uint64_t draw(uint64_t n) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t x = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (x ^ x >> 31) % n;
}

/* Into a block of exactly this size, so that the address sanitizer sees a read past its end. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    if (size) memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static size_t mutate(uint8_t *data, size_t size) {
    for (uint64_t changes = 1 + draw(4); changes > 0 && size > 0; changes--) {
        size_t at = draw(size), length = 1 + draw(size - at < 16 ? size - at : 16);
        switch (draw(6)) {
        case 0:
            data[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 1:
            data[at] = (uint8_t)draw(256);
            break;
        case 2:
            size = at;
            break; /* cut */
        case 3:
            memmove(data + at, data + at + length, size - at - length), size -= length;
            break; /* remove */
        case 4:
            memmove(data + at, data + draw(size - length + 1), length);
            break; /* copy over */
        case 5:    /* double */
            memmove(data + at + length, data + at, size - at);
            size += length;
            break;
        }
    }
    return size;
}

static void run_file(const char *path) {
    static uint8_t data[FILE_MAX + 64], changed[FILE_MAX + 128];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    size_t size = fread(data, 1, FILE_MAX, f);
    fclose(f);
    run(data, size);
    state = size;
    for (const char *p = path + strlen(path); p > path && p[-1] != '/'; p--) state = state * 31 + (unsigned char)p[-1];
    for (int i = 0; i < MUTATIONS; i++) {
        memcpy(changed, data, size);
        run(changed, mutate(changed, size));
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int run_folder(const char *folder) {
    char *names[FILES_MAX], path[4096];
    int count = 0;
    DIR *d = opendir(folder);
    if (!d) {
        perror(folder);
        exit(1);
    }
    for (struct dirent *e; (e = readdir(d)) && count < FILES_MAX;)
        if (e->d_name[0] != '.') names[count++] = strdup(e->d_name);
    closedir(d);
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        run_file(path);
        free(names[i]);
    }
    return count;
}

int main(int argc, char **argv) {
    int files = 0;
    run((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) files += run_folder(argv[i]);
    printf("%d files, %d inputs\n", files, 1 + files * (1 + MUTATIONS));
    return files > 0 ? 0 : 1;
}
