/* json_tool FILE [PATH]: reads the JSON documents of a file, one after another; prints the value at PATH (keys and indices
 * with dots between them) of each, one a line. Exit code 1 if anything is not JSON or PATH is not there. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *at_path(const json_t *value, const char *path) {
    while (value && *path) {
        char key[128];
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10)) : json_object_get(value, key);
        path += length + (path[length] == '.');
    }
    return value;
}

static void print(const json_t *value) {
    if (json_is_string(value)) {
        puts(json_string_value(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    puts(text ? text : "");
    free(text);
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!file) return 1;
    int failed = 0, documents = 0;
    for (;;) {
        int c;
        while ((c = fgetc(file)) == '\n' || c == ' ') {
        }
        if (c == EOF) break;
        ungetc(c, file);
        json_error_t error;
        json_t *document = json_loadf(file, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &error);
        if (!document) {
            fprintf(stderr, "document %d: %s\n", documents + 1, error.text);
            failed = 1;
            break;
        }
        const json_t *value = at_path(document, argc > 2 ? argv[2] : "");
        if (value && argc > 2 && argv[2][0]) print(value);
        failed |= !value;
        json_decref(document);
        documents++;
    }
    fclose(file);
    return failed || documents == 0;
}
