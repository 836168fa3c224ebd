/* Trains a classifier on rows `label TAB text` and saves it: `train ROWS MODEL`. One row in ten is held out to choose the weights.
 *
 *     cc train.c $(pkg-config --cflags --libs qkv) && ./a.out rows.tsv model.safetensors
 */
#include <stdio.h>

#include <qkv.h>

static void show(void *user, const qkv_train_event *event) {
    FILE *to = user;
    if (event->kind == QKV_TRAIN_DATA)
        fprintf(to, "%lld rows of %lld classes\n", (long long)event->u.data.train_rows, (long long)event->u.data.classes);
    if (event->kind == QKV_TRAIN_EVALUATE)
        fprintf(to, "step %lld: accuracy %.4f%s\n", (long long)event->u.evaluation.step, event->u.evaluation.accuracy,
                event->u.evaluation.best ? ", the best so far" : "");
}

int main(int argc, char **argv) {
    qkv_ctx *ctx = NULL;
    qkv_model *model = NULL;
    char message[256];
    if (argc != 3) return fprintf(stderr, "usage: %s ROWS MODEL\n", argv[0]), 2;
    if (qkv_ctx_create(NULL, &ctx, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;

    /* The defaults, then a size, then single options: as text, as on the command line, or as fields of the struct. */
    const qkv_option_table *table = qkv_classify_options_table();
    qkv_classify_options options;
    qkv_options_default(table, &options);
    qkv_status status = qkv_classify_options_size(ctx, &options, "tiny");
    if (!status) status = qkv_options_set(ctx, table, &options, "vocab", "300");
    options.steps = 20;

    const qkv_train_callbacks callbacks = {show, stdout};
    if (!status) status = qkv_classify_train(ctx, &options, argv[1], NULL, NULL, &callbacks, &model);
    if (!status) status = qkv_model_save(model, argv[2]);
    if (status) fprintf(stderr, "%s: %s\n", qkv_status_name(status), qkv_message(ctx));

    qkv_model_free(model);
    qkv_ctx_free(ctx);
    return status ? 1 : 0;
}
