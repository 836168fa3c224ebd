/* Reads lines from standard input and prints the label of each: `classify MODEL < LINES`.
 *
 *     cc classify.c $(pkg-config --cflags --libs qkv) && ./a.out model.safetensors < lines.txt
 */
#include <stdio.h>
#include <stdlib.h>

#include <qkv.h>

int main(int argc, char **argv) {
    qkv_ctx *ctx = NULL;
    qkv_model *model = NULL;
    qkv_lines *lines = NULL;
    float *p = NULL;
    char message[256];
    if (argc != 2) return fprintf(stderr, "usage: %s MODEL < LINES\n", argv[0]), 2;
    if (qkv_ctx_create(NULL, &ctx, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;

    qkv_status status = qkv_model_load(ctx, argv[1], &model);
    if (!status) status = qkv_lines_open(ctx, "-", &lines);
    if (!status && !(p = malloc((size_t)qkv_model_labels(model) * sizeof *p))) {
        fprintf(stderr, "no memory for %lld probabilities\n", (long long)qkv_model_labels(model));
        status = QKV_NO_MEMORY; /* not of a call of qkv, so the context has no sentence of it */
        goto end;
    }
    for (const char *text; !status;) {
        int64_t length, best = 0;
        if ((status = qkv_lines_next(lines, &text, &length)) || !text) break;
        if ((status = qkv_classify_predict(model, 1, &text, &length, p, NULL))) break;
        for (int64_t i = 1; i < qkv_model_labels(model); i++)
            if (p[i] > p[best]) best = i;
        printf("%s\t%.4f\n", qkv_model_label(model, best), p[best]);
    }
    if (status) fprintf(stderr, "%s: %s\n", qkv_status_name(status), qkv_message(ctx));
    else if (fflush(stdout)) perror("standard output"), status = QKV_IO;

end:
    free(p);
    qkv_lines_close(lines);
    qkv_model_free(model);
    qkv_ctx_free(ctx);
    return status ? 1 : 0;
}
